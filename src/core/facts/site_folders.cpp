#include "facts/site_folders.hpp"

#include "base/text.hpp"

namespace ddprun::facts {

std::vector<std::string> site_folders(const Environment& environment) {
  const auto value_of = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  std::vector<std::string> folders;
  // The XDG base directory specification: a relative path there is to be ignored.
  if (const std::string config = value_of("XDG_CONFIG_HOME"); config.starts_with('/')) {
    folders.push_back(config + "/ddprun/sites.d");
  } else if (const std::string home = value_of("HOME"); home.starts_with('/')) {
    folders.push_back(home + "/.config/ddprun/sites.d");
  }
  folders.push_back("/etc/ddprun/sites.d");
  return folders;
}

namespace {

constexpr std::string_view k_home = "PBS_HOME=";

}  // namespace

std::string find_pbs_configuration(const Environment& environment) {
  const bool told = !variable_or_empty(environment, "PBS_NODEFILE").empty() ||
                    !variable_or_empty(environment, "PBS_HOME").empty();
  if (told || variable_or_empty(environment, "PBS_JOBID").empty()) return {};
  const std::string named = variable_or_empty(environment, "PBS_CONF_FILE");
  return named.empty() ? "/etc/pbs.conf" : named;
}

Environment with_pbs_home(Environment environment, const std::string& configuration) {
  if (!variable_or_empty(environment, "PBS_HOME").empty()) return environment;
  for (const std::string& line : split(configuration, '\n')) {
    const std::string_view text = trim(line);
    if (text.starts_with(k_home)) environment["PBS_HOME"] = trim(text.substr(k_home.size()));
  }
  return environment;
}

}  // namespace ddprun::facts
