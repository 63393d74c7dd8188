// Any text as a host list or number list: names or an Error, and a list of names survives compression.
#include <cstdint>
#include <cstdlib>

#include "ddprun/allocation/hostlist.hpp"
#include "ddprun/allocation/number_list.hpp"
#include "ddprun/base/error.hpp"

using namespace ddprun;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto hosts = expand_hostlist(text, "LIST");
    if (expand_hostlist(compress_hostlist(hosts), "LIST") != hosts) std::abort();
  } catch (const Error&) {
  }
  try {
    expand_counts(text, "COUNTS");
  } catch (const Error&) {
  }
  try {
    expand_numbers(text, "NUMBERS", 65535);
  } catch (const Error&) {
  }
  return 0;
}
