// Frames and messages: the first byte says how the rest is cut into pieces.
#include "promise.hpp"
#include "rendezvous/codec.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

std::vector<std::string> payloads_of(std::string_view stream, std::size_t piece) {
  rendezvous::FrameReader reader;
  std::vector<std::string> payloads;
  for (; !stream.empty(); stream.remove_prefix(std::min(piece, stream.size()))) {
    reader.append(std::string(stream.substr(0, piece)));
    auto item = reader.next();
    for (; std::holds_alternative<std::string>(item); item = reader.next()) {
      payloads.push_back(std::get<std::string>(item));
    }
    if (std::holds_alternative<rendezvous::CodecError>(item)) return payloads;
  }
  return payloads;
}

// What was understood can be said again. Text may be cut where it is longer than what encoding keeps: the
// second time nothing changes.
template <class Message, class Decode>
void check(const std::string& payload, const Decode& decode) {
  const auto decoded = decode(payload);
  if (std::holds_alternative<rendezvous::CodecError>(decoded))
    return require(!std::get<rendezvous::CodecError>(decoded).what.empty());
  const auto again = [&](const Message& message) {
    const std::string frame = rendezvous::encode(message);
    require(frame.size() <= rendezvous::k_frame_header + rendezvous::k_max_frame);
    const auto read = decode(frame.substr(rendezvous::k_frame_header));
    require(std::holds_alternative<Message>(read));
    return std::get<Message>(read);
  };
  const Message once = again(std::get<Message>(decoded));
  require(again(once) == once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> payloads = payloads_of(stream, stream.size() + 1);
  require(payloads_of(stream, std::size_t{data[0]} + 1) == payloads);
  for (const std::string& payload : payloads) {
    check<rendezvous::AgentMessage>(payload, rendezvous::decode_agent_message);
    check<rendezvous::CoordinatorMessage>(payload, rendezvous::decode_coordinator_message);
  }
  return 0;
}
