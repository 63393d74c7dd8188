// Remote launcher and command lines that start ddprun on the hosts of an allocation without a step.
//
// A remote launcher is a program of the site: srun, mpiexec, ssh and so on. It starts one ddprun a host and
// brings their output back. Facts about them: srun(1) INPUT ENVIRONMENT VARIABLES, pbsdsh(1B), mpiexec of
// MPICH, Open MPI and HPE PALS, flux-run(1), LSF's blaunch(1), Grid Engine's qrsh(1), OAR's oarsh(1), ssh(1);
// PJM's pjrsh after the guides of its centres.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options/options.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::selflaunch {

// A word of a command line that stands for where the front end listens, which is known only once it does.
inline constexpr const char* k_front_end_word = "ADDRESS:PORT/ID";

struct RemoteCommand {
  std::string host;  // the one it starts ddprun on; empty: on all
  std::vector<std::string> words;
  bool task_on_input = false;  // standard input brings the agent's task
  friend bool operator==(const RemoteCommand&, const RemoteCommand&) = default;
};

// Way in which an agent on another host gets arguments, working directory and environment.
enum class TaskWay {
  environment,  // the remote launcher passes all of it
  input,        // through the remote launcher's standard input
  lifeline,     // it asks the front end over the network
};

struct SelfLaunchPlan {
  allocation::Allocation allocation;
  std::vector<std::string> hosts;  // hosts where it starts one ddprun each, in node order
  // Number of hosts that have to take part, the first one among them; nullopt: all of them.
  std::optional<std::size_t> least_hosts;
  Sourced<int> spares = by_default(0);   // last ones of the hosts: they start workers only if needed
  Sourced<std::string> remote_launcher;  // "srun"
  TaskWay task = TaskWay::environment;
  bool passes_exit_code = true;  // false: it ends with 0 whatever the agent ended with (pbsdsh of OpenPBS 23)
  std::vector<RemoteCommand> commands;
  std::vector<plan::VariableChange>
      changes;           // to the environment of the agents and, where it passes, the remote launcher
  Sourced<int> workers;  // on each node, as far as this host tells; 0: it does not
  Sourced<std::vector<std::string>> launcher_args;  // --launcher-args, within the command lines
  std::vector<int> workers_of_nodes{};              // if they differ by the tasks of the job; else empty
  std::vector<allocation::Notice> notices;
};

// Returns the values of --launcher, best known first: "srun", "mpiexec", "pbsdsh", "pbs_tmrsh", "ssh",
// "flux", "blaunch", "qrsh", "oarsh", "pjrsh"; and "none".
const std::vector<std::string>& remote_launcher_names();

// Plans a self-launch if the allocation has hosts but no step, from Snapshot::programs ("ddprun" is this
// program's file; a remote launcher's program that is not there at all has not been looked for). Returns
// nullopt if ddprun has been started in its place already, or with --launcher none. Throws Error or
// UsageError, with a hint, if no remote launcher can do it.
std::optional<SelfLaunchPlan> make_self_launch_plan(const facts::Snapshot& snapshot,
                                                    const options::Options& options,
                                                    const allocation::Allocation& allocation);

// Returns the programs worth looking for before make_self_launch_plan is called: the chosen one, else those
// that start the scheduler's jobs. Some take a while to say what they are.
std::vector<std::string> remote_launcher_programs(const allocation::Allocation& allocation,
                                                  const options::Options& options);
// Returns the programs of every remote launcher: for a capture, from which anything may be planned.
std::vector<std::string> all_remote_launcher_programs();

// Throws Error with the command line to type instead where the style is LaunchStyle::not_started.
void refuse_unstarted(const allocation::Allocation& allocation, const options::Options& options,
                      const facts::Snapshot& snapshot);
// Returns the allocation, unless it is refused.
allocation::Allocation detect_started(const facts::Snapshot& snapshot, const options::Options& options);

// --launcher-args: options of the user's for the program that starts ddprun on the other hosts.

inline constexpr const char* k_launcher_args_hint = "as in --launcher-args '--mpi=pmix --export=ALL,X=1'";

// Returns the words for this remote launcher; no origin without the option. Throws UsageError for one that
// ddprun sets itself, or that keeps agents from their task: it then says why.
Sourced<std::vector<std::string>> read_launcher_args(const options::Options& options,
                                                     const std::string& remote_launcher);

}  // namespace ddprun::selflaunch
