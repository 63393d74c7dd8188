// End of a process, as os observes it and lifecycle judges it.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

// Stages between a new process and the program it was started for, with the call that may fail there.
enum class StartStage {
  process,            // no process could be made
  parent_death,       // prctl
  group,              // setsid, setpgid
  terminal,           // tcsetpgrp
  working_directory,  // chdir
  descriptors,        // dup2, setrlimit
  signals,            // sigaction, sigprocmask
  exec,               // execve: no such file, not executable, unknown format, ...
  interpreter,        // the file is there, what its first line (or its loader) names is not
};

// Returns "exec", "working directory", ...
inline std::string_view stage_name(StartStage stage) {
  constexpr std::string_view k_names[] = {"process",           "parent death", "group",   "terminal",
                                          "working directory", "descriptors",  "signals", "exec",
                                          "interpreter"};
  return k_names[static_cast<std::size_t>(stage)];
}

constexpr int k_highest_signal = 64;  // highest one of Linux

struct ExitStatus {
  enum class Kind { exited, signalled, not_started, hung };
  Kind kind = Kind::exited;
  int value = 0;  // exit code, signal number, or errno of the stage that failed
  StartStage stage = StartStage::process;
  bool core_dumped = false;
  std::string reason{};  // not_started before any system call failed, hung: the whole of it
  bool success() const { return kind == Kind::exited && value == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

}  // namespace ddprun
