// Folders of site descriptions and of PBS' configuration, from the environment.
#pragma once

#include <string>
#include <vector>

#include "facts/program.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::facts {

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
