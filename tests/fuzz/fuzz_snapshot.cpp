// Whatever the file says, only ddprun::Error comes out, and what is accepted survives being written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "ddprun/base/error.hpp"
#include "ddprun/facts/byte_text.hpp"
#include "ddprun/facts/secrets.hpp"
#include "ddprun/facts/snapshot.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const std::string bytes(data, data + size);
  if (unescape_bytes(escape_bytes(bytes)) != bytes) std::abort();
  mask_text(bytes);
  try {
    const Snapshot snapshot = parse_snapshot(bytes, "fuzz");
    const std::string json = render_snapshot(snapshot);
    if (parse_snapshot(json, "fuzz") != snapshot || render_snapshot(snapshot) != json) std::abort();
    const Snapshot clean = without_secrets(snapshot);
    if (without_secrets(clean) != clean) std::abort();
    parse_snapshot(render_snapshot(clean), "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
