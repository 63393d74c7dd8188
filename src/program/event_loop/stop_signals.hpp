// Signals that stop the job, and signals that ddprun looks at.
#pragma once

#include <vector>

#include "options/options.hpp"
#include "os/process/signals.hpp"

namespace ddprun::event_loop {

// Returns --signals-to-handle and SIGTERM, which stops whatever else does; else TERM, INT, HUP and QUIT.
std::vector<int> stop_signals_of(const options::Options& options);
bool is_stop_signal(int number, const options::Options& options);
// Reports whether a person sent it, so that a second one means "at once". A scheduler asks several times on
// its way to SIGKILL (Slurm at a time limit: SIGTERM twice, 35 to 165 ms apart; LSF: SIGINT, then SIGTERM),
// and kills by itself when it has waited long enough. Its signals come from its daemon, which is above us.
// Without a scheduler the process above us is a shell or mpiexec, with a person behind it.
bool is_from_person(const os::SignalEvent& event, facts::Scheduler scheduler);
// Returns those, and the others that a launcher has to handle.
std::vector<int> watched_signals_of(const options::Options& options);

}  // namespace ddprun::event_loop
