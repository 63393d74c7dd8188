// One JSON object that people write, read strictly, with the line of every key for complaints.
// It is a site's profile, or a configuration.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "facts/program.hpp"

namespace ddprun::facts {

// Options in a file: a configuration, or "options" of a site's profile.
// The command line knows which options there are.
struct OptionText {
  std::string name;    // spelt as on the command line, without dashes
  std::string text;    // "true" and "false" for those
  std::string origin;  // "max-restarts (/etc/ddprun/config.json, line 3)"
};

inline constexpr std::size_t k_config_limit = 64 << 10;

// Returns the paths of configuration files, the one that counts most first:
// $XDG_CONFIG_HOME/ddprun/config.json (by default below ~/.config; none without a home), then
// /etc/ddprun/config.json.
std::vector<std::string> config_files(const Environment& environment);

// Throws UsageError with the file and the line.
std::vector<OptionText> parse_config(const std::string& text, const std::string& file);

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
