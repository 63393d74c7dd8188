// Descriptors in general: pipes, what we inherited, and waiting on what is shared with others.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::os {

// An owned file descriptor.

class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Fd() { close(); }

  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  int release() noexcept { return std::exchange(number_, -1); }
  void close() noexcept {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

struct Pipe {
  Fd reader;
  Fd writer;
};

Fd open_null();  // /dev/null, to read and to write

// Makes a pipe with both ends close-on-exec and blocking. Throws Error when descriptors have run out.
Pipe make_pipe();
// Returns the capacity of a pipe in bytes; that of a usual one for other files.
std::size_t pipe_capacity(int descriptor);
// Takes the unread bytes out of the pipe of this write end, which has to be ours, also when no reader is
// left.
std::string read_unread(int pipe_writer);
// Throws Error when descriptors have run out.
Fd duplicate(int descriptor);

// Reports whether both lead to one file, terminal or pipe.
bool same_file(int one, int other);

// Opens /dev/null for each of 0, 1 and 2 that is closed, so that no socket of ours ever becomes "stdout".
// The first thing main does.
void ensure_standard_descriptors();

// Gives this process a table of descriptors of its own if it was shared (CLONE_FILES). False if the system
// refuses that.
bool unshare_descriptors();

// Leaves a helper process with `kept`, close-on-exec, as its only descriptors beyond /dev/null as 0, 1 and 2;
// returns them in their order. Ends the process if that cannot be done.
std::vector<int> close_all_but(const std::vector<int>& kept);
int close_all_but(int kept);
// Does the same and keeps none.
void close_all();
// For a helper process that uses descriptors which this program was started with, by their names: closes all
// others but `kept`.
void close_own_descriptors(int kept);
// Returns the sockets connected by TCP that are open now, by their inode numbers.
std::set<std::uint64_t> capture_connections();
// Does the same and keeps these, except those in `foreign`.
void close_all_but_connections(const std::set<std::uint64_t>& foreign);
// Does the same and keeps none, but the peers of connections read an end. Of one with unread bytes they would
// read a reset, as from a process that lives.
void end_connections();

// Raises our soft limit of open files, of which every worker takes some here, towards the hard one. Returns
// what it was, for the workers (select(2) breaks beyond 1024). Empty: nothing was changed.
std::optional<std::uint64_t> raise_open_files_limit();

// Returns the descriptors beyond 0, 1, 2 that we were started with and would pass on: all without
// close-on-exec. Meant for the start of the program, before anything else opens descriptors.
std::vector<int> capture_inherited_descriptors();

// A descriptor that becomes readable when `descriptor` is ready, and that may be made non-blocking, which
// `descriptor` may not where others share its open file. Empty where readiness has no meaning (files: always
// ready).
enum class Readiness { readable, writable };
Fd watch_readiness(int descriptor, Readiness readiness);

// Makes `standard` (1 or 2) another name of the socket, whose writes wait from now on.
void lead_to_socket(int standard, int socket);
// Makes `standard` another name of `before` again; nothing where that is none.
void lead_back(int standard, int before);
// Ends writing: the peer reads the end behind what was written. False if the system refuses that.
bool end_writing(int socket);
// Returns the next byte that the peer sends; nullopt when none comes within the limit.
std::optional<char> receive_byte(int socket, Milliseconds limit);

// Waits until it is ready for `events` (poll(2)), or fails; false where `deadline` comes first.
bool wait_until_ready(int descriptor, TimePoint deadline, short events = POLLIN);

// Reads until the end, `deadline`, or at least `most` bytes.
std::string read_by(TimePoint deadline, int descriptor, std::size_t most);

// Writes all bytes; false when the reader has gone.
bool write_whole(int descriptor, std::string_view bytes);

// Reports whether the other end of a pipe or socket is closed; never so for other files.
bool is_hung_up(int descriptor);

}  // namespace ddprun::os
