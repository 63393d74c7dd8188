#include "options/check_options.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::options {

CheckOptions parse_check(const std::string& text, const std::string& origin) {
  CheckOptions check;
  for (const std::string& word : split(text.empty() ? "table" : text, ',')) {
    check.json |= word == "json";
    check.deep |= word == "deep";
    check.automatic |= word == "auto";
    if (word == "table" || word == "json" || word == "deep" || word == "auto") continue;
    const auto match = closest_match(word, {"table", "json", "deep", "auto"});
    throw UsageError(fmt::format("{} is not one of table, json, deep, auto: '{}'", origin, printable(word)),
                     match ? fmt::format("did you mean {}?", *match) : "give one of them, or deep,json");
  }
  check.wanted = !check.automatic;
  if (check.automatic && (check.json || check.deep))
    throw UsageError(fmt::format("{} cannot be auto and something else: '{}'", origin, printable(text)),
                     "auto runs before the job; leave it out to check and run nothing");
  return check;
}

}  // namespace ddprun::options
