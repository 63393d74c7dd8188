// A file that is there whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::os {

// Writes beside it, then renames; a device or a pipe (/dev/null, /dev/fd/3) is written to as it is. Why not,
// as errno says; empty: done. Mode 0666 and the umask.
std::string replace_file(const std::string& path, std::string_view text);
// The same; throws Error, "cannot write PATH: no space left on device".
void write_file(const std::string& path, std::string_view text);

// Adds a line to the end of a file, at once with those of other processes. Empty, or why that cannot be done.
std::string append_line(const std::string& path, const std::string& line);

}  // namespace ddprun::os
