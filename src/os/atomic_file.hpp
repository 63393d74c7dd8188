// A file that is there whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "os/fd.hpp"

namespace ddprun::os {

// Opens a file, made where it is not there, to add to its end. A name that stands for one of our descriptors
// (/dev/stdout, /dev/fd/3) is that descriptor, whatever it leads to: what else is written through it is not
// overwritten, and a socket, which cannot be opened, serves too. None, and errno, where that fails.
Fd open_to_append(const std::string& path);

// Writes beside it, then renames; behind a symbolic link. A device, a pipe and a descriptor (/dev/null,
// /dev/stdout) are written to as they are. Why not, as errno says; empty: done. Mode 0666 and the umask.
std::string replace_file(const std::string& path, std::string_view text);
// Does the same; throws system_failure(), "cannot write PATH: no space left on device".
void write_file(const std::string& path, std::string_view text);

// Adds a line to the end of a file, at once with those of other processes. Empty, or why that cannot be done.
std::string append_line(const std::string& path, const std::string& line);

}  // namespace ddprun::os
