// Questions to servers inside workers, asked side by side; their answers are not trusted.
#pragma once

#include <poll.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "os/fd.hpp"

namespace ddprun::inspection {

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
