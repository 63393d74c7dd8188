// What a front end and its agents say to each other, the task of an agent and the front end's address: what
// is understood can be said again and is the same.
#include "promise.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/lifeline.hpp"

using namespace ddprun;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  if (const auto message = rendezvous::lifeline::decode(text)) {
    rendezvous::FrameReader reader;
    reader.append(rendezvous::lifeline::encode(*message));
    const auto frame = reader.next();
    require(std::holds_alternative<std::string>(frame));
    const auto again = rendezvous::lifeline::decode(std::get<std::string>(frame));
    require(again == message);
  }
  if (const auto task = rendezvous::decode_task(text))
    require(rendezvous::decode_task(rendezvous::encode(*task)) == task);
  if (const auto address = rendezvous::parse_front_end_address(text)) {
    require(rendezvous::parse_front_end_address(rendezvous::to_string(*address)) == address);
  }
  const std::vector<std::string> lines = split(text, '\n');
  for (const std::string& entry :
       rendezvous::merge_environments(lines, {"CUDA_VISIBLE_DEVICES=0", "HOSTNAME=n1"})) {
    require(!entry.starts_with("HOSTNAME=") || entry == "HOSTNAME=n1");
  }
  return 0;
}
