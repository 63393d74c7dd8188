// Whole small files, with a limit, without ever waiting for a FIFO or a device; and names in folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::os {

// A file of /proc or /sys that ddprun looks at is never longer.
inline constexpr std::size_t k_small_file = 64 << 10;

// Returns the contents; nullopt when the file is missing, unreadable, not a regular file or longer than
// `limit`.
std::optional<std::string> try_read_file(const std::string& path, std::size_t limit = k_small_file);

// Reads a file that the user named likewise: throws UsageError "cannot read PATH: <why>".
std::string read_file(const std::string& path, std::size_t limit);

// Reads the first `count` bytes, fewer when the file is shorter; empty when it cannot be read.
std::string read_head(const std::string& path, std::size_t count);

// Reads the last `count` bytes.
std::string read_tail(const std::string& path, std::size_t count);

// Returns when it was written last, in Unix milliseconds; nullopt when there is no such file.
std::optional<std::int64_t> last_written(const std::string& path);

// Reads all of it, until its end. Throws Error.
std::string read_standard_input(std::size_t limit);

// Names in a folder, sorted, without those that begin with a dot unless `hidden`; empty when there is no such
// folder.
std::vector<std::string> list_folder(const std::string& path, bool hidden = false);

}  // namespace ddprun::os
