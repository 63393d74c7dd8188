// The controlling terminal, lending it to a worker, and what is typed there.
//
// Only the terminal's foreground process group may read it; workers have groups of their own. So a single
// worker on a terminal becomes the foreground group itself (SpawnRequest::terminal, or give_to()), and keys,
// ^C and ^Z are its own. What the driver does:
//
//   worker stops (Child::take_stop on SIGCHLD)  -> take_back(), stop_own_group(): the shell sees the job stop
//   we are continued (SIGCONT)                  -> give_to(worker) if in_foreground(), SIGCONT to its group
//   worker wants the terminal (SIGTTIN, SIGTTOU) and we are in_foreground() -> give_to(worker), SIGCONT
//   worker ends                                 -> take_back().
//
// No function here is stopped by SIGTTOU, whoever is in the foreground.
#pragma once

#include <termios.h>
#include <optional>
#include <string>

#include "os/fd.hpp"

namespace ddprun::os {

// Reading what is typed, without being stopped for it and without touching the terminal's flags.
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

bool is_terminal(int descriptor);
// Returns the width of the terminal that standard error leads to, else standard output; 0 if neither leads to
// one, or it does not report its width.
int terminal_columns();

class Terminal {
 public:
  // Opens /dev/tty; nullopt when there is no controlling terminal.
  static std::optional<Terminal> open_controlling();

  int descriptor() const noexcept { return descriptor_.get(); }
  // Reports whether our own process group may read and is sent the keys' signals.
  bool in_foreground() const;
  // Gives the terminal to the group, only from the foreground, else it would be taken from the group that has
  // it: false, and nothing changed.
  bool give_to(int group);
  // Makes our group the foreground again if the borrower's is, or one that has ended, with the modes of
  // before the loan (a worker killed in the middle of a password prompt leaves echo off). Else the user has
  // put the job into the background and the terminal belongs to another group: nothing changes.
  void take_back(int borrower);

 private:
  explicit Terminal(Fd descriptor);

  Fd descriptor_;
  termios modes_{};
  bool has_modes_;
};

// Reports whether a shell is there that could continue us: false in an orphaned group (setpgid(2)), as a
// launcher's processes are, where the kernel does not let SIGTSTP stop any process.
bool can_be_continued();

// Stops our whole process group as ^Z would, and returns once continued; at once where no shell is there that
// could continue us (an orphaned group).
void stop_own_group();

}  // namespace ddprun::os
