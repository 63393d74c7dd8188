// How a process ended: what os observes and supervise decides on.
#pragma once

#include <string>

namespace ddprun {

struct ExitStatus {
  enum class Kind { exited, signalled, not_started };
  Kind kind = Kind::exited;
  int value = 0;      // exit code, signal number, or errno of the stage that failed
  std::string stage;  // not_started: "exec", "working directory", ...; with value 0 the whole reason
  bool core_dumped = false;
  bool success() const { return kind == Kind::exited && value == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

}  // namespace ddprun
