// One JSON object that people write, read strictly, with the line of every key for complaints.
// It is a site's profile, or a configuration.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "facts/option_texts.hpp"

namespace ddprun::facts {

struct LinedJson {
  using Json = nlohmann::ordered_json;

  std::string subject;  // "the site profile /etc/ddprun/sites.d/x.json"
  std::string hint;
  Json json;
  std::map<const Json*, int> lines;  // line of each member's key

  int line_of(const Json& value) const;
  // Throws UsageError "cannot use <subject>, line N, column M: <why>"; line 0 is the file as a whole, column
  // 0 is left out.
  [[noreturn]] void fail(int line, const std::string& why, int column = 0) const;
};

// Refuses what is no object, repeated keys, deep nesting and more than `limit` bytes.
LinedJson read_lined_json(const std::string& text, std::string subject, std::string hint, std::size_t limit);

// Reads the members of an object of `source`, which is `file`. Throws UsageError if one is no text, number or
// truth value.
std::vector<OptionText> read_option_texts(const LinedJson& source, const LinedJson::Json& object,
                                          const std::string& file);

}  // namespace ddprun::facts
