// Report of a job or an attempt that ends badly: cause, ranks that were killed, what helps; also as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "report/outcome.hpp"

namespace ddprun::report {

// Ranks that did not end within --shutdown-timeout, and were killed.

// Ranks of one host that were killed at the same place.
struct KilledRanks {
  std::vector<int> ranks;  // ascending
  std::string host;
  int signal = 0;         // the signal that had asked them to end
  Milliseconds after{0};  // time from that signal to SIGKILL
  std::string place{};    // place of the first of them shortly before: "is at train.py:31 in save"; or empty
  friend bool operator==(const KilledRanks&, const KilledRanks&) = default;
};

// Returns "ranks 0-3 on n1 were killed 30 s after SIGTERM; rank 0 was at train.py:31 in save"
std::string describe(const KilledRanks& killed);

// Joins those that differ in nothing but their ranks.
std::vector<KilledRanks> fold_alike(std::vector<KilledRanks> killed);

// Renders lines without the "ddprun: " in front of the first; at most one screen. Text that came from workers
// or peers is made printable. Empty for success.
std::string render_report(const Cause& cause, const UsedRestarts& restarts);

// Renders the lines under the report: failures that ended by themselves as well, and ranks that were stopped.
// Each line begins with a line end.
std::string render_others(const std::vector<Failure>& others, const std::vector<int>& victims);

// Describes a job that a signal stopped: "ranks 4-7 had ended, ranks 0-3 were running".
std::string describe_running(const std::vector<int>& running, int world_size);

// Renders the lines under that: which restarts were made, and why there was no other one. Each line begins
// with a line end; empty for success and if there is nothing to say.
std::string render_restarts(const UsedRestarts& restarts, const Cause& cause);

// Returns the message that follows ^C at once: "waiting up to 30 s for the workers to stop; ..."
std::string describe_wait_after_key(Milliseconds grace);

std::string name_ranks(const std::vector<int>& ranks);  // ascending: "ranks 0-3,5-511"

// Outcome of --requeue.
struct Requeuing {
  bool asked = false;
  std::string what{};     // the sentence that is printed
  std::string refusal{};  // answer of the scheduler; empty: it has not refused
};

// A rank that was found to hang, and the job went on (--on-hang report).
struct Hang {
  int rank = 0;
  std::string host{};
  int attempt = 0;
  std::int64_t unix_milliseconds = 0;  // when it was found
  std::string what{};                  // "rank 1 on n2 hangs: ..."
  std::string hint{};
  friend bool operator==(const Hang&, const Hang&) = default;
};
// "found at 2026-11-29 10:33:21 UTC, after which the job went on: rank 1 on n2 hangs: ..."
std::string describe(const Hang& hang);

// Standard input of a check command: a JSON object with "attempt", "node" and "failure", which is null where
// nothing has failed, else as that of --report.
std::string render_check_input(Attempt attempt, const std::string& node,
                               const std::optional<Failure>& failure);

// End of the job as --report writes it, in one JSON object.
struct JobEnd {
  Cause cause;
  std::vector<Failure> others;
  std::vector<int> victims;
  std::vector<std::string> remarks;
  std::string job;   // TORCHELASTIC_RUN_ID
  std::string host;  // host that wrote it
  int world_size = 0;
  int nodes = 0;
  int attempts = 1;
  int restarts = 0;
  int max_restarts = 0;
  std::vector<Failure> restarted{};  // failures that the restarts answered
  std::vector<KilledRanks> killed{};
  std::int64_t began = 0;  // Unix milliseconds
  std::int64_t ended = 0;
  int scheduler_restarts = 0;            // number of times that the scheduler had started the job before
  std::vector<Hang> hangs{};             // in the order in which they were found
  std::optional<Requeuing> requeuing{};  // unset: not asked for
};
std::string render_report_json(const JobEnd& end);

// Returns the message that a worker wrote about its own failure: torch's @record leaves JSON in
// $TORCHELASTIC_ERROR_FILE (torch/distributed/elastic/multiprocessing/errors/error_handler.py). The traceback
// if there is one, else the message; empty for anything that is not such a file (a worker may have died while
// writing it).
std::string parse_error_file(const std::string& text);

// Returns the error file that torchrun would have left for a launcher around it: the worker's own error if it
// wrote one.
std::string render_error_file(const Cause& cause);

// Returns "rank 3 on n2 exited with code 1; starting all workers again", or "again in 4 s".
std::string describe_restart(const Failure& cause, Milliseconds delay);
// Returns the same with " (restart 1 of 3)".
std::string render_restart(const Failure& cause, int number, int max_restarts, Milliseconds delay);

}  // namespace ddprun::report
