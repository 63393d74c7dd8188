#include "facts/site_folders.hpp"

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

}  // namespace ddprun::facts
