// Folder of PBS' files on this host, for jobs whose tasks are not passed the path.
#pragma once

#include "facts/snapshot.hpp"

namespace ddprun::facts {

// Returns the file that names PBS_HOME: PBS_CONF_FILE or /etc/pbs.conf (pbs.conf(8)). Empty if nothing
// depends on it: outside a job, and if a variable has it.
std::string find_pbs_configuration(const Environment& environment);

// Adds PBS_HOME as the configuration's text has it, unless the environment has one.
Environment with_pbs_home(Environment environment, const std::string& configuration);

}  // namespace ddprun::facts
