// Reading what is typed, without being stopped for it and without touching the terminal's flags.
#pragma once

#include <string>

#include "os/fd.hpp"

namespace ddprun::os {

class TerminalInput {
 public:
  enum class State { typed, nothing_yet, for_others, ended };
  struct Result {
    State state;
    std::string text;  // State::typed: at most one line of the terminal, or what its mode gives
  };

  explicit TerminalInput(int descriptor);  // stays the caller's, and has to outlive this

  // Reads without waiting. It leaves the input alone in the background, where reading would stop us by
  // SIGTTIN, and while keys are not collected to lines: then a program beside us, less(1) behind a |, reads
  // them one by one.
  Result read() const;
  // Returns a descriptor that is readable when something was typed, for any reader.
  const Fd& watch() const noexcept { return watch_; }

 private:
  int descriptor_;
  Fd watch_;
};

}  // namespace ddprun::os
