// Options of an srun about the end of a part of its step, from its command line, environment and slurm.conf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::facts {

// Parses them in srun's own order: its command line, else SLURM_NO_KILL, SLURM_KILL_BAD_EXIT and SLURM_WAIT
// of its environment, else KillOnBadExit and WaitTime of `configuration`, the text of slurm.conf (files that
// it includes are not read). `words` is the whole command line, which ends with ddprun's `arguments` unless a
// script is between; then the script's arguments count as srun's.
StepOptions parse_step_options(const std::vector<std::string>& words,
                               const std::vector<std::string>& arguments, const Environment& environment,
                               std::string_view configuration);

// Parses the inode of the TCP socket that listens on `port`, in the text of /proc/net/tcp or tcp6; nullopt if
// there is none.
std::optional<std::int64_t> parse_listener_inode(std::string_view table, int port);

}  // namespace ddprun::facts
