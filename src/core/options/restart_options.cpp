#include "options/restart_options.hpp"

#include <fmt/format.h>

#include <set>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::options {

std::vector<int> parse_exit_codes(const std::string& text, const std::string& origin) {
  std::set<int> codes;
  for (const std::string& word : split(text, ',')) {
    const auto code = parse_integer(trim(word));
    if (!code || *code < 1 || *code > 255) {
      const bool range = word.find('-', 1) != std::string::npos;
      throw UsageError(fmt::format("{} is not a list of exit codes: '{}'", origin, printable(text)),
                       range ? "name each code, as in 3,4,5: ranges are not accepted"
                             : "give codes from 1 to 255, as in 3 or 3,64; 128+n means signal n");
    }
    codes.insert(static_cast<int>(*code));
  }
  return {codes.begin(), codes.end()};
}

}  // namespace ddprun::options
