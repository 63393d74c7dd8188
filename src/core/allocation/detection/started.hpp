// The place of a ddprun that another ddprun started on this host (self-launch), and the hosts a user lists.
//
//   DDPRUN_FRONT_END        address of the one that started it: "10.0.0.1,10.1.0.1:40123/8f3c..."
//   DDPRUN_FRONT_END_KEY    64 hexadecimal digits that only this launch knows
//   DDPRUN_HOSTS            all hosts of the launch, as a host list; not set where the scheduler's own
//                           variables show the place (srun, flux)
//   DDPRUN_NODE_RANK        this host among them; not set where an MPI launcher's rank shows it
//   DDPRUN_JOB              "pbs/123.server": the job that has these hosts; "hosts" if the user listed them
//   DDPRUN_REMOTE_LAUNCHER  "ssh": the program that started it
//   DDPRUN_TASKS            "2*n[1-2] 1*n3": the tasks that the job's script asked for on each host
//   DDPRUN_UMASK            "077": the front end's, which MPI launchers do not pass on
//   DDPRUN_TERMINAL         "1": what is typed at the front end's terminal reaches rank 0
//   DDPRUN_SITE_FILE        what the file of --site FILE says, which the other hosts may not have
//
// None of them reaches the workers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/manual.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

inline constexpr const char* k_front_end_variable = "DDPRUN_FRONT_END";
inline constexpr const char* k_front_end_key_variable = "DDPRUN_FRONT_END_KEY";
inline constexpr const char* k_started_hosts_variable = "DDPRUN_HOSTS";
inline constexpr const char* k_started_rank_variable = "DDPRUN_NODE_RANK";
inline constexpr const char* k_started_job_variable = "DDPRUN_JOB";
inline constexpr const char* k_started_remote_launcher_variable = "DDPRUN_REMOTE_LAUNCHER";
inline constexpr const char* k_started_umask_variable = "DDPRUN_UMASK";
inline constexpr const char* k_started_terminal_variable = "DDPRUN_TERMINAL";
// Number of connections that an agent opens to its front end for its output: "1" if standard output and
// standard error lead to one file there, "2" if they do not.
inline constexpr const char* k_started_streams_variable = "DDPRUN_OUTPUT_STREAMS";
inline constexpr const char* k_started_site_variable = "DDPRUN_SITE_FILE";
// SLURM_CPUS_PER_TASK as it was before srun was told to give the agents all CPUs of the node.
inline constexpr const char* k_cpus_per_task_variable = "DDPRUN_CPUS_PER_TASK";

inline constexpr const char* k_started_tasks_variable = "DDPRUN_TASKS";

// Reports whether it is one of the variables above.
bool is_front_end_variable(std::string_view name);

// Returns "pbs/123.server", which parse_started reads back.
std::string describe_job(const Allocation& allocation);

// Returns the front end's umask; nullopt if no ddprun started this one. Throws Error for an invalid one.
std::optional<int> find_front_end_umask(const facts::Snapshot& snapshot);

// Reports whether DDPRUN_TERMINAL is set: prompts are to be shown, though standard input is no terminal here.
bool has_front_end_terminal(const facts::Snapshot& snapshot);

// Reports whether DDPRUN_HOSTS is set.
bool is_started(const facts::Snapshot& snapshot, const PlaceOptions& options);
// Parses such a launch, with one agent a node. Throws Error when this host's place cannot be determined.
Allocation parse_started(const facts::Snapshot& snapshot, const PlaceOptions& options);

// Reports whether --hosts or --hostfile is given, and this process is the one the user started.
bool has_listed_hosts(const facts::Snapshot& snapshot, const PlaceOptions& options);
// Returns LaunchStyle::not_started on these hosts; alone if the only one is this host.
Allocation parse_listed_hosts(const facts::Snapshot& snapshot, const PlaceOptions& options);

// A secret that the user gives to every node where they share neither a home directory nor munge. It does not
// reach the workers.
inline constexpr const char* k_secret_variable = "DDPRUN_SECRET";
inline constexpr std::size_t k_least_secret = 16;  // characters

// Adds the secret of the launch first, if the environment has one, then DDPRUN_SECRET. Throws UsageError if
// that is too short to be one.
void add_given_secrets(const facts::Snapshot& snapshot, Allocation& allocation);

// Contents of a host file: one host a line, Open MPI's "n1 slots=4" and hydra's "n1:4" alike, '#' starts a
// comment; each host once, in that order. `slots`: some line had a number of slots, or its host again. Throws
// UsageError naming `origin` and the line.
struct HostFile {
  std::vector<std::string> hosts;
  bool slots = false;
};
HostFile parse_hostfile(std::string_view text, const std::string& origin);
// Parses "a,b" or "n[1-4]"; a host that comes twice is an error. Throws UsageError naming `origin`.
std::vector<std::string> parse_hosts(std::string_view text, const std::string& origin);

// The first argument of a ddprun that a remote launcher started without arguments and environment
// (app/started_agent.hpp). `arguments` is argv without the program's name.
inline constexpr const char* k_started_by_option = "--started-by";
bool is_started_agent(const std::vector<std::string>& arguments);

}  // namespace ddprun::allocation
