// Options in a file: a configuration, or "options" of a site's profile.
// The command line knows which options there are.
#pragma once

#include <string>
#include <vector>

#include "facts/program.hpp"

namespace ddprun::facts {

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

}  // namespace ddprun::facts
