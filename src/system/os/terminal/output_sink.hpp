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
#pragma once

#include <string_view>

#include "os/fd.hpp"

namespace ddprun::os {

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
