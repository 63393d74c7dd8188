// Files that a user named, for writing: one that is there whole or not at all, and one to whose end is added.
//
// None of this waits for the reader of a named pipe to come, follows a symbolic link that another user has
// put into a folder like /tmp, or writes to a file of another user's there (os/path_walk.hpp). A file system
// that hangs holds up the caller: where nothing may, os/files/file_writer.hpp has a process for it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/duration.hpp"
#include "os/descriptors.hpp"

namespace ddprun::os {

struct OpenedFile {
  Fd file;
  std::string problem;        // reason why there is none
  bool lacks_reader = false;  // it is a named pipe that nobody reads yet
};

// Opens a file, made where it is not there, to add to its end. A name that stands for one of our descriptors
// (/dev/stdout, /dev/fd/3) is that descriptor, whatever it leads to: what else is written through it is not
// overwritten, and a socket, which cannot be opened, serves too. A named pipe or a device is opened with
// O_NONBLOCK.
OpenedFile open_to_append(const std::string& path);

// Reports whether another file can be renamed to it, or there is none yet: no device, pipe or descriptor.
bool is_replaceable(const std::string& path);

// Writes beside it, then renames; behind a symbolic link. A device, a pipe and a descriptor (/dev/null,
// /dev/stdout) are written to as they are. Why not, in words; empty: done. Mode 0666 and the umask.
std::string replace_file(const std::string& path, std::string_view text);
// Does the same; throws system_failure(), "cannot write PATH: no space left on device".
void write_file(const std::string& path, std::string_view text);

// Replaces a file by what `make` makes of what it holds, `limit` bytes at most, while no other process does
// the same.
std::string update_file(const std::string& path, std::size_t limit,
                        const std::function<std::string(const std::string& before)>& make);

// Adds a line to the end of a file that has none like it, at once with those of other processes. Empty, or
// why that cannot be done.
std::string add_line(const std::string& path, const std::string& line);

inline constexpr const char* k_not_read = "its reader does not read";
// Limit of write_waiting() without `waits`.
inline constexpr Milliseconds k_reader_limit{3000};
// Writes all of it. If it has to wait for a reader it calls `waits`, if there is one, and waits; else for
// k_reader_limit at most. Returns 0 or errno: ETIME for such a reader, which is k_not_read in words.
int write_waiting(const Fd& file, std::string_view text, const std::function<void()>& waits);

}  // namespace ddprun::os
