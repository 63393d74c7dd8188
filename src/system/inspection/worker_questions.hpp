// Questions to the servers inside the workers of this host, asked side by side.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "os/descriptors.hpp"
#include "os/process/helper_child.hpp"
#include "slow/trace.hpp"
#include "status/job_status.hpp"

namespace ddprun::inspection {

// Profiles, collectives and modules of the workers of this host, asked of the servers inside them.
// Asked through their doors (worker_inspection.hpp), all at a time, in a child of its own.

// Modules that the Pythons of the workers have loaded.

inline constexpr std::size_t k_most_modules_text = std::size_t{64} << 20;

// Asks them through their doors (workers/inspection.hpp), by worker, in a child of its own, within a second;
// its answer is for parse_modules(). Throws Error where there can be no child.
os::AnsweringChild capture_modules_in_child(std::vector<std::string> doors);

// Returns the modules of each worker in the order in which they were loaded; empty for one that has not
// answered. Empty for text that is no such answer.
std::vector<std::vector<std::string>> parse_modules(std::string_view answer);

// Profiles the workers that run for `duration`. `limit`: bytes of the answer of each. The child's answer is a
// line of profile::render_rank() for each of them. Throws Error if there can be no child.
os::AnsweringChild profile_workers_in_child(const status::NodeStatus& node,
                                            const std::vector<std::string>& doors, Milliseconds duration,
                                            int limit);

// Time that the child takes at most beyond the duration.
inline constexpr Milliseconds k_profile_grace{2500};

// Reports whether torch's worker server listens in any of them: else there is nothing to ask.
bool has_collective_traces(const std::vector<std::string>& doors);

// Asks for the flight records, within a second. `ranks`: by door. The answer is for slow::parse_trace(), in
// Unix time, with the newest `most` entries of each rank, and the connections that the child lists. No
// interpreter takes part. Throws Error if there can be no child.
using ListConnections = std::function<std::vector<slow::Connection>()>;
os::AnsweringChild capture_traces_in_child(const std::vector<std::string>& doors,
                                           const std::vector<int>& ranks, const ListConnections& connections,
                                           std::size_t most);

// Questions to servers inside workers, asked side by side; their answers are not trusted.

// Connect without waiting; empty if no process listens there.
os::Fd connect_to_path(const std::string& path);
os::Fd connect_to_local_port(int port);  // on 127.0.0.1

// A request whose answer ends with the connection.
class SocketQuestion {
 public:
  SocketQuestion(os::Fd socket, std::string request)
      : request_(std::move(request)), socket_(std::move(socket)) {}

  bool is_open() const { return static_cast<bool>(socket_); }
  // Returns nullopt before the answer is complete, and for one of more than 8 MiB.
  std::optional<std::string_view> answer() const {
    return whole_ ? std::optional<std::string_view>(answer_) : std::nullopt;
  }

  pollfd polled() const;
  void go_on();  // when polled() is ready

 private:
  void send();

  std::string request_;
  std::size_t sent_ = 0;
  os::Fd socket_;
  std::string answer_;
  bool whole_ = false;
};

// Posts a question to torch's worker server.
SocketQuestion post(const std::string& socket_path, std::string_view handler);

// Returns the body of the answer if its head reports success.
std::optional<std::string_view> body_of(const SocketQuestion& posted);

void ask_all(const std::vector<SocketQuestion*>& questions, Milliseconds limit);

}  // namespace ddprun::inspection
