// Frames and messages: the first byte says how the rest is cut into pieces.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ddprun/rendezvous/codec.hpp"

using namespace ddprun;

namespace {

std::vector<std::string> payloads_of(std::string_view stream, std::size_t piece) {
  FrameReader reader;
  std::vector<std::string> payloads;
  for (; !stream.empty(); stream.remove_prefix(std::min(piece, stream.size()))) {
    reader.append(stream.substr(0, piece));
    auto item = reader.next();
    for (; std::holds_alternative<std::string>(item); item = reader.next()) {
      payloads.push_back(std::get<std::string>(item));
    }
    if (std::holds_alternative<CodecError>(item)) return payloads;
  }
  return payloads;
}

// What was understood can be said again.
template <class Message, class Decode>
void check(const std::string& payload, const Decode& decode) {
  const auto decoded = decode(payload);
  if (!std::holds_alternative<Message>(decoded)) return;
  const std::string frame = encode(std::get<Message>(decoded));
  if (frame.size() > k_frame_header + k_max_frame) std::abort();
  if (!std::holds_alternative<Message>(decode(frame.substr(k_frame_header)))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> payloads = payloads_of(stream, stream.size() + 1);
  if (payloads_of(stream, std::size_t{data[0]} + 1) != payloads) std::abort();
  for (const std::string& payload : payloads) {
    check<AgentMessage>(payload, decode_agent_message);
    check<CoordinatorMessage>(payload, decode_coordinator_message);
  }
  return 0;
}
