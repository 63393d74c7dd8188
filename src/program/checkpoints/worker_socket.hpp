// The socket by which workers ask for what their checkpoints need: a line a request, a line an answer.
#pragma once

#include <functional>
#include <string>

#include "os/fd.hpp"

namespace ddprun::checkpoints {

// Listens at a path, for this user. Throws Error.
os::Fd listen_for_workers(const std::string& path);

// Serves as long as the process lives, each connection in a thread. `answer` returns the answer to a line,
// and is called without one when the connection has ended; `from` is the same for all lines of one.
using Answer = std::function<std::string(const void* from, const std::string* line)>;
[[noreturn]] void serve_workers(const os::Fd& listener, const Answer& answer);

}  // namespace ddprun::checkpoints
