// Ends of workers, and of the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/exit_status.hpp"
#include "base/ids.hpp"

namespace ddprun::report {

// Returns the code that a launcher passes on: the exit code, 128+n for a signal, 126/127 for a program that
// cannot start, 125 for a start that ddprun could not prepare.
int exit_code_of(const ExitStatus& status);

// Failure of one worker, with facts that help to understand it.
struct Failure {
  Attempt attempt;
  GlobalRank rank;
  LocalRank local_rank;
  std::string host;
  int pid = 0;
  std::string program;  // first word of the command
  ExitStatus status;
  std::int64_t unix_milliseconds = 0;   // on its host
  std::string message;                  // from the worker's error file; may be empty
  std::size_t message_cut = 0;          // bytes that were there before `message` begins
  std::vector<std::string> last_lines;  // last lines of its stderr, else of its stdout
  std::string hint;                     // remedy, if known (report/known_failures.hpp)
  std::string gpu{};                    // its share of the visible devices: "3", "GPU-5c2f..."; empty: none
  std::string out_of_memory{};  // limit it was killed at: "the cgroup's limit of 4.0 GiB"; empty: none
  std::string environment{};    // "Python 3.11, torch 2.13.0, NVIDIA H100 80GB HBM3", as far as it is known
  std::string log_file{};       // file with all that it wrote; empty: none
  std::string because{};        // "rank 1 on n1 had exited with code 0 0.1 s before": what others show of it
  std::string
      collective{};         // the one it was in, as torch's flight recorder shows: "all_reduce #7 (10 float)"
  bool after_stop = false;  // it ended after it was told to stop
  std::vector<int> alike{};  // other ranks that ended in the same way
  bool gpu_fault = false;    // the kernel's log shows it, and `because` says which
  friend bool operator==(const Failure&, const Failure&) = default;
};

// Returns the same, but 1 for one that was stopped before it could exit by itself.
int exit_code_of(const Failure& failure);

// The restarts of a job: the budget and what used it.
struct UsedRestarts {
  int used = 0;
  int most = 0;
  std::vector<Failure> causes;  // causes of the latest ones, oldest first; without their output
  friend bool operator==(const UsedRestarts&, const UsedRestarts&) = default;
};

// Cause of the whole job's end; the first one counts.
struct Cause {
  enum class Kind { success, worker_failed, stopped_by_signal, agent_lost, deadline, launcher_failed };
  Kind kind = Kind::success;
  Failure failure;   // worker_failed; else one that came before, where its host is named
  int signal = 0;    // stopped_by_signal
  std::string host;  // stopped_by_signal, agent_lost
  // agent_lost, deadline, launcher_failed: the sentence; worker_failed: why there was no restart, if not for
  // the number of them (RestartDecision::why); stopped_by_signal: who sent it, or why the scheduler ended the
  // job ("job 29 reached its time limit of 01:00:00"), where that is known
  std::string detail;
  std::string hint{};  // remedy
  int exit_code = 0;   // launcher_failed: if not k_exit_own_failure
  friend bool operator==(const Cause&, const Cause&) = default;
};

int exit_code_of(const Cause& cause);

// Returns it without what its worker wrote, which may be long.
Failure without_words(Failure failure);

std::string describe(const ExitStatus& status);  // "exited with code 1", "was killed by SIGSEGV"
// Returns one sentence: "rank 3 on n2 exited with code 1", "rank 0 on n1 was killed by SIGSEGV (core
// dumped)".
std::string describe(const Failure& failure);
std::string describe(const Cause& cause);

}  // namespace ddprun::report
