// Files that people and sites write: their folders, and strict reading of one JSON object.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "facts/program.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::facts {

// One JSON object that people write, read strictly, with the line of every key for complaints.
// It is a site's profile, or a configuration.

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

// Folders of site descriptions and of PBS' configuration, from the environment.

// Folder of PBS' files on this host, for jobs whose tasks are not passed the path.

// Returns the file that names PBS_HOME: PBS_CONF_FILE or /etc/pbs.conf (pbs.conf(8)). Empty if nothing
// depends on it: outside a job, and if a variable has it.
std::string find_pbs_configuration(const Environment& environment);

// Adds PBS_HOME as the configuration's text has it, unless the environment has one.
Environment with_pbs_home(Environment environment, const std::string& configuration);

// A longer description is refused, and so are more of them in one folder.
inline constexpr std::size_t k_site_file_limit = 64 << 10;
inline constexpr std::size_t k_site_files_limit = 64;

// Returns the user's folder ($XDG_CONFIG_HOME/ddprun/sites.d, default ~/.config/ddprun/sites.d; none without
// a home), then /etc/ddprun/sites.d. Files that end in .json are read.
std::vector<std::string> site_folders(const Environment& environment);

}  // namespace ddprun::facts
