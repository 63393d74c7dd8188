// Whatever the file says, only ddprun::Error comes out, and what is accepted survives being written again.
#include "facts/json_reader.hpp"
#include "facts/secrets.hpp"
#include "facts/snapshot.hpp"
#include "promise.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const std::string bytes(data, data + size);
  fuzz::require(facts::unescape_bytes(facts::escape_bytes(bytes)) == bytes);
  facts::mask_text(bytes);
  fuzz::try_to([&] {
    const facts::Snapshot snapshot = facts::parse_snapshot(bytes, "fuzz");
    const std::string json = facts::render_snapshot(snapshot);
    fuzz::require(facts::parse_snapshot(json, "fuzz") == snapshot &&
                  facts::render_snapshot(snapshot) == json);
    const facts::Snapshot clean = facts::without_secrets(snapshot);
    fuzz::require(facts::without_secrets(clean) == clean);
    facts::parse_snapshot(facts::render_snapshot(clean), "fuzz");
  });
  return 0;
}
