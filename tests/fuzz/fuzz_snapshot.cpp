// Whatever the file says, only ddprun::Error comes out, and what is accepted survives being written again.
#include "ddprun/facts/secrets.hpp"
#include "ddprun/facts/snapshot.hpp"
#include "facts/byte_text.hpp"
#include "promise.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const std::string bytes(data, data + size);
  fuzz::require(unescape_bytes(escape_bytes(bytes)) == bytes);
  mask_text(bytes);
  fuzz::try_to([&] {
    const Snapshot snapshot = parse_snapshot(bytes, "fuzz");
    const std::string json = render_snapshot(snapshot);
    fuzz::require(parse_snapshot(json, "fuzz") == snapshot && render_snapshot(snapshot) == json);
    const Snapshot clean = without_secrets(snapshot);
    fuzz::require(without_secrets(clean) == clean);
    parse_snapshot(render_snapshot(clean), "fuzz");
  });
  return 0;
}
