// The socket by which workers ask for what their checkpoints need: a line a request, a line an answer.
#pragma once

#include <functional>
#include <string>

#include "os/fd.hpp"

namespace ddprun::checkpoints {

// Listens at a path, for this user. Throws Error.
os::Fd listen_for_workers(const std::string& path);

struct WorkerRequests {
  // Returns the answer. `connection` is the same for all requests of a connection.
  std::function<std::string(const void* connection, const std::string& line)> answer;
  std::function<void(const void* connection)> ended;
};
// Serves as long as the process lives, each connection in a thread.
[[noreturn]] void serve_workers(const os::Fd& listener, const WorkerRequests& requests);

}  // namespace ddprun::checkpoints
