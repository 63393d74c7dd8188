// Everything ddprun looks at before it plans, as one value.
// It is read once by os/capture, or from a --snapshot file.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "facts/program.hpp"
#include "facts/topology.hpp"

namespace ddprun::facts {

struct InterfaceAddress {
  std::string interface;  // "eth0"
  std::string address;    // numeric, IPv4 or IPv6 without scope
  int prefix_length = 0;
  bool loopback = false;
  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
};

// GPU as the vendor's runtime would enumerate it before any visibility variable: a device this process may
// open.
struct Gpu {
  std::string vendor;              // "nvidia", "amd", "intel"
  std::string pci_address;         // "0000:c1:00.0", empty when unknown
  std::string uuid{};              // "GPU-...", as the vendor's runtime spells it; empty when unknown
  std::vector<int> local_cpus{};   // its local_cpulist; empty when the firmware does not tell
  std::vector<std::string> mig{};  // UUIDs of its MIG instances: they hide the whole GPU
  std::string model{};             // "NVIDIA A100-SXM4-40GB"; empty when unknown
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// An ancestor process: the titles of slurmstepd say which step we really are in.
struct Ancestor {
  int pid = 0;
  std::string title;  // "slurmstepd: [29.0]"
  friend bool operator==(const Ancestor&, const Ancestor&) = default;
};

// Effect on the other tasks of an srun's step when a part of it ends.
struct StepOptions {
  bool no_kill = false;           // leaves them alone when a node fails
  bool kill_on_bad_exit = false;  // ends them with the first task that fails
  std::int64_t wait = 0;          // seconds after the first task that ends; 0: it does not end them
  friend bool operator==(const StepOptions&, const StepOptions&) = default;
};

struct HostFacts {
  std::string name;      // gethostname(), as it is
  std::int64_t uid = 0;  // effective
  int pid = 0;
  std::vector<InterfaceAddress> addresses;  // addresses of interfaces that are up, kernel order
  std::vector<int> allowed_cpus;            // sched_getaffinity, ascending
  int allowed_cores = 0;                    // cores among these, SMT siblings counted once
  int online_cpus = 0;                      // CPUs of the whole host
  std::optional<double> cpu_quota;          // cgroup cpu.max, in CPUs
  std::vector<Gpu> gpus;
  std::string nvlink_domain;              // NVML's fabric, as "UUID.clique"; empty: no NVLinks to other hosts
  std::vector<int> allowed_memory_nodes;  // Mems_allowed_list, ascending
  std::optional<Topology> topology;       // nullopt: not read (--bind none)
  std::vector<std::string>
      warnings;  // missing facts with the reason, for the user: "NVML gave no answer within 2 s"
  std::pair<int, int> ephemeral_ports{32768, 60999};  // ip_local_port_range
  bool munge = false;                                 // a munge daemon's socket is there
  std::string cgroup;                                 // /proc/self/cgroup, whole
  std::vector<Ancestor> ancestors;                    // parent first; only what /proc shows
  std::optional<StepOptions> step;  // options of the srun that started us; nullopt: none did
  bool stdin_is_terminal = false;
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

struct Snapshot {
  static constexpr int k_format = 1;
  std::vector<std::string> arguments;  // argv without the program name
  std::string working_directory;
  Environment environment;  // complete in memory; a captured file holds the allow-listed part
  std::map<std::string, std::string> files;  // path -> contents of the files a scheduler points to
  std::map<std::string, ProgramFacts>
      programs;  // indexed by word: the command's, python_candidates(), remote launchers
  // Host names that were looked up: their numeric addresses, separated by blanks.
  std::map<std::string, std::string> names;
  HostFacts host;
  std::int64_t unix_time = 0;                  // seconds
  std::vector<std::string> removed_secrets{};  // variables, and "arguments", whose secrets were removed
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// Returns the value of a variable; nullopt when unset. An empty variable is an empty string.
std::optional<std::string> find_variable(const Snapshot& snapshot, const std::string& name);

// Returns the file with the hosts of a PBS job: PBS_NODEFILE, else where OpenPBS puts it unless it was
// installed elsewhere, since the tasks of pbsdsh on the first host have no such variable. Empty outside a
// job.
std::string find_pbs_node_file(const Environment& environment);

// Returns what --capture writes: variables that planning reads or that describe the site (facts/secrets.hpp
// has the list) and those of `more`, secrets replaced by k_removed_secret in variables, arguments and
// ancestors' titles.
Snapshot without_secrets(const Snapshot& snapshot, const std::vector<std::string>& more = {});

// A longer file is refused before it is parsed.
inline constexpr std::size_t k_snapshot_limit = 4 << 20;

// Renders JSON with a stable order of keys that ends with a line end. Text that is not UTF-8 survives: such a
// byte is written as the four characters \xNN, and so is a backslash before an x (\x5cx); parse_snapshot
// turns them back.
std::string render_snapshot(const Snapshot& snapshot);
// Parses a snapshot. A key that is absent has its default, except "format". Throws Error naming `source`, the
// line or key and what is wrong with it; unknown and repeated keys are errors.
Snapshot parse_snapshot(const std::string& json, const std::string& source);

}  // namespace ddprun::facts
