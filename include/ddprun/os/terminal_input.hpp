// Reading what is typed, without being stopped for it and without touching the terminal's flags.
#pragma once

#include <string>

#include "ddprun/os/fd.hpp"

namespace ddprun {

class TerminalInput {
 public:
  enum class State { typed, nothing_yet, in_background, ended };
  struct Result {
    State state;
    std::string text;  // State::typed: at most one line of the terminal, or what its mode gives
  };

  explicit TerminalInput(int descriptor);  // stays the caller's, and has to outlive this

  // Never waits. In the background it leaves the input alone (reading would stop us by SIGTTIN).
  Result read() const;
  // Readable when something was typed, whoever it is meant for.
  const Fd& watch() const noexcept { return watch_; }

 private:
  int descriptor_;
  Fd watch_;
};

}  // namespace ddprun
