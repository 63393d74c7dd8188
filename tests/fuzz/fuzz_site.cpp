// A profile of a site that anybody may have written: read, or refused with a sentence.
#include <cstdint>

#include "ddprun/base/error.hpp"
#include "ddprun/plan/site.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    ddprun::parse_site_profile({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const ddprun::UsageError&) {
    return 0;
  }
  return 0;
}
