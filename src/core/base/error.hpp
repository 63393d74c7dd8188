// The one exception type of set-up, and the exit codes a user can meet.
#pragma once

#include <exception>
#include <string>

namespace ddprun {

// Exit codes of ddprun itself; a failing worker's own code (128+n for signal n) takes precedence.
// 126 and 127 follow env(1), 124 follows timeout(1) and is also the code of a hang.
inline constexpr int k_exit_usage = 2;
inline constexpr int k_exit_unfit = 123;  // a node is unfit, and no other one can take its place
inline constexpr int k_exit_deadline = 124;
inline constexpr int k_exit_own_failure = 125;
inline constexpr int k_exit_not_executable = 126;
inline constexpr int k_exit_not_found = 127;

// Thrown while setting up, caught once in main. `what` is one lower-case sentence without a final stop that
// names the host, rank and cause where they are known; `hint` says what to do and may be empty.
class Error : public std::exception {
 public:
  explicit Error(std::string what, std::string hint = {}, int exit_code = k_exit_own_failure)
      : what_(std::move(what)), hint_(std::move(hint)), exit_code_(exit_code) {}

  const char* what() const noexcept override { return what_.c_str(); }
  const std::string& hint() const noexcept { return hint_; }
  int exit_code() const noexcept { return exit_code_; }

 private:
  std::string what_;
  std::string hint_;
  int exit_code_;
};

// A command line, PET_ variable or configuration the user has to change: exits with k_exit_usage.
class UsageError : public Error {
 public:
  explicit UsageError(std::string what, std::string hint = {})
      : Error(std::move(what), std::move(hint), k_exit_usage) {}
};

}  // namespace ddprun
