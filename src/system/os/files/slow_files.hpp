// Calls to a file system that may hang, each in a child with a time limit.
// Their caller has others to serve.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/duration.hpp"
#include "os/descriptors.hpp"

namespace ddprun::os {

inline constexpr Milliseconds k_file_system_limit{5000};

// Returns what `act` returns, whose Error is thrown on. Throws Error, "<what>: its file system does not
// answer", after k_file_system_limit.
std::string ask_file_system(const std::string& what, const std::function<std::string()>& act);

// The same where an answer is not that important: nothing where there is none, and, for a minute after a file
// system did not answer, at once.
std::optional<std::string> try_file_system(const std::function<std::string()>& act);

// open_to_append() (os/atomic_file.hpp); what is written to the file blocks. Throws Error, "<what>: no space
// left on device".
Fd open_slow_file(const std::string& what, const std::string& path);

// replace_file() and add_line() likewise: why not, in words; empty: done.
std::string replace_slow_file(const std::string& path, std::string_view text);
std::string add_slow_line(const std::string& path, const std::string& line);

}  // namespace ddprun::os
