// A profile of a site or a configuration that anybody may have written: read, or refused with a sentence.
#include "facts/lined_json.hpp"
#include "promise.hpp"
#include "site/site.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const std::string text = fuzz::text_of(data, size);
  fuzz::try_to([&] { site::parse_site_profile(text, "fuzz.json"); });
  fuzz::try_to([&] {
    for (const facts::OptionText& option : facts::parse_config(text, "fuzz.json"))
      fuzz::require(!option.origin.empty());
  });
  return 0;
}
