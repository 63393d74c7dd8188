// The controlling terminal, and writing to standard outputs that are shared, without waiting.
#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <string_view>

#include "os/descriptors.hpp"

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

// Writing to one of our own standard outputs without waiting, and without a trace in what others share.
//
// O_NONBLOCK belongs to the open file, which our stdout shares with the shell, srun and whoever else has it:
// it must not be set there. So, by what the descriptor is:
//
//   file, /dev/null   written directly; it never waits for a reader. Its offset stays shared with stderr.
//   socket            MSG_DONTWAIT, per call.
//   pipe, terminal    opened anew through /proc/self/fd: an open file of our own, which may be non-blocking.
//   none of these     (a pipe made by another user cannot be opened) poll, then a write small enough for
//                     what poll promised: PIPE_BUF for pipes (pipe(7)). Another writer of the same pipe can
//                     come between; then we wait for its reader.

class OutputSink {
 public:
  explicit OutputSink(int descriptor);  // stays the caller's, and has to outlive this

  // Returns how much was taken; less than all when the reader is slow. What fails is dropped, as if taken.
  std::size_t write(std::string_view text);
  // Returns the errno of the last write that failed; 0: none did. Later writes are still tried.
  int error() const noexcept { return error_; }
  // Returns the errno of the last failure that lost text a reader may still have wanted; 0: none did. A
  // reader who has gone (EPIPE; a terminal that was hung up) wants no more.
  int lost() const noexcept { return lost_; }
  // Returns a descriptor that is readable when more can be taken; empty if all always can.
  const Fd& watch() const noexcept { return watch_; }

 private:
  enum class Kind { direct, socket, nonblocking, careful };

  long write_some(std::string_view text) const;  // returns as write(2)
  bool reader_has_gone() const;                  // reads errno

  Kind kind_ = Kind::direct;
  int descriptor_;
  Fd own_;
  Fd watch_;
  std::size_t portion_ = 0;  // for Kind::careful
  bool terminal_ = false;
  int error_ = 0;
  int lost_ = 0;
};

}  // namespace ddprun::os
