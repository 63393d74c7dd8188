// Calls into other people's libraries that may wait for ever, or end the process they are in.
// They run in a forked child that is killed at the deadline.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/exit_status.hpp"
#include "os/process/helper_child.hpp"

namespace ddprun::os {

// A short program, its output and its end: mpiexec --version, scontrol show job, a site's own check.

// Errors included, at most `most` bytes; what has come by then where it does not end within `limit`, and
// nothing where it cannot be started. It and what it started are killed. Waits.
std::string ask_program(const std::vector<std::string>& words, Milliseconds limit, std::size_t most = 16384);

struct ProgramRun {
  std::vector<std::string> words;
  std::vector<std::string> environment;  // "NAME=value", complete
  std::string input;                     // its standard input
};
struct ProgramEnd {
  std::optional<ExitStatus> status;  // nullopt: it did not end in time, and was killed
  std::string output;                // errors included; what comes after `most` bytes is read and left out
};
// Waits for its end, `limit` at most. What it started is killed as well.
ProgramEnd run_program(const ProgramRun& run, Milliseconds limit, std::size_t most = 16384);

struct ChildAnswer {
  std::optional<std::string> bytes;  // return value of the function
  std::string problem;               // reason of no answer: "no answer within 3 s", "ended by signal 11"
  bool timed_out = false;
};

// A call that is waited for, so that several can run side by side. Costs a fork (well below a millisecond in
// a small process).
class ChildCall {
 public:
  static constexpr std::size_t k_limit = 2 << 20;

  // Starts the call. An answer longer than `limit` bytes is a problem.
  explicit ChildCall(const std::function<std::string()>& function, std::size_t limit = k_limit);

  // Blocks until `limit` after the start at most, and ends the child; to be asked once. Time for which the
  // call was ready to run and got no CPU does not count, up to `starved`: a busy machine is none that hangs.
  ChildAnswer wait(Milliseconds limit, Milliseconds starved = Milliseconds{0});

 private:
  bool hangs(Milliseconds limit) const;

  TimePoint start_;
  std::size_t limit_;
  std::optional<AnsweringChild> child_;
  std::string problem_;  // reason why there is no child
};

// Makes such a call alone.
ChildAnswer call_in_child(const std::function<std::string()>& function, Milliseconds deadline,
                          std::size_t limit = ChildCall::k_limit);

}  // namespace ddprun::os
