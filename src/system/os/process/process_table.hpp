// The machine's processes as /proc shows them, and those that were killed for memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "facts/proc_text.hpp"
#include "facts/stuck_process.hpp"

namespace ddprun::os {

// The machine's processes as /proc shows them: who belongs to whom, what they use, which one is stuck.

// Looks at a process that SIGKILL has not ended.

// Captures a process that SIGKILL has not ended. Of several threads the one that sleeps uninterruptibly
// counts: the leader may have ended long ago.
facts::StuckProcess capture_stuck_process(int pid);

// Resources that processes use, from /proc.
struct ProcessUsage {
  Milliseconds cpu_time{0};  // with that of children that have been waited for
  Milliseconds own_cpu{0};   // CPU time of the process itself
  Milliseconds cpu_wait{0};  // its main thread was ready to run, and had to wait for a CPU
  std::uint64_t memory = 0;  // resident bytes; what processes share counts for each
  std::uint64_t io = 0;      // bytes read and written by system calls (rchar and wchar of /proc/PID/io)
};

// Returns the time for which its main thread was ready to run and had to wait for a CPU: the second number of
// schedstat. None on a kernel without it.
Milliseconds read_cpu_wait(int pid);

// Returns the use of each process with all its descendants, in this order; nullopt for one that has ended,
// and without a /proc of our own. Reads the whole table once.
std::vector<std::optional<ProcessUsage>> measure_usage(const std::vector<int>& pids);

struct ProcessEntry {
  int pid = 0;
  std::string name;  // at most 15 bytes, the kernel's "comm"
  char state = '?';  // 'Z': its first thread has ended; see has_ended()
  int parent = 0;
  int group = 0;
  int session = 0;
  int terminal = 0;    // its device; 0: it has no controlling terminal
  int foreground = 0;  // the group that has that terminal
  std::uint64_t start_time =
      0;                        // clock ticks since boot: tells a process from a later one of the same number
  std::uint64_t cpu_ticks = 0;  // CPU time used
  std::uint64_t waited_ticks = 0;    // CPU time of children waited for
  std::uint64_t resident_pages = 0;  // shared ones too
  std::uint64_t threads = 1;         // with the first, also when that one has ended
};

using ProcessTable = std::vector<ProcessEntry>;

// Reports whether all its threads have ended: what it held is free, and only its number waits to be reaped.
bool has_ended(const ProcessEntry& process);

// Parses one line of /proc/PID/stat (proc(5)); the name may hold blanks and parentheses.
std::optional<ProcessEntry> parse_process_stat(std::string_view line);

// Reports whether /proc shows our own PID namespace. Otherwise (unshare --pid without --mount-proc, some
// containers) its numbers are those of other processes here, and nothing may be signalled by what it shows.
bool sees_own_processes();

// Returns all processes this user may see; none without a /proc of our own. A process that starts meanwhile
// may be missing: loop when it matters.
ProcessTable capture_processes();
std::optional<ProcessEntry> capture_process(int pid);
// Reports whether there is this very process, of any user: by its number alone if /proc does not show it.
bool is_running(int pid, std::uint64_t start_time);
// Tells this PID namespace from others; empty without /proc.
std::string pid_namespace();

// Returns our children, ended ones that are not reaped too. Read from one file where the kernel keeps that
// list. None without a /proc of our own.
std::vector<int> capture_children();

// Returns everything below `root`, without `root`, without `except` and what is below those.
ProcessTable find_descendants(const ProcessTable& table, int root, const std::vector<int>& except = {});
// Returns the leaders, every member of the groups and sessions they lead, and everything below any of these.
ProcessTable find_families(const ProcessTable& table, const std::vector<int>& leaders);

// Reports whether it has mapped a file, such as a library, whose path contains `name`. False if we may not
// look.
bool has_mapped(int pid, std::string_view name);

// Sends to this very process; false when it is gone, even when its number is in use again, and without a
// /proc of our own.
bool send_signal_to(const ProcessEntry& process, int signal);

// Watch for processes of ours that the kernel killed because memory was used up.

class OomWatch {
 public:
  // Remembers how many were killed so far. `root` is in front of every path.
  explicit OomWatch(std::string root = {});

  // Returns why a process was killed by SIGKILL for memory: "the limit of 4.0 GiB of its cgroup was reached";
  // empty: it was not, as far as this process may see.
  std::string explain_kill(int pid);

 private:
  std::optional<std::int64_t> count() const;
  bool kernel_log_tells(int pid) const;

  std::string root_;
  std::optional<facts::MemoryGroup> group_;
  std::int64_t known_ = 0;  // kills that are explained, or were there before
};

}  // namespace ddprun::os
