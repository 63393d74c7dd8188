#include "checkpoints/worker_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/child_socket.hpp"
#include "os/status_socket.hpp"
#include "os/system_failure.hpp"

namespace ddprun::checkpoints {

namespace {

constexpr int k_backlog = 256, k_most_connections = 512;
constexpr Milliseconds k_line_limit{10000}, k_accept_pause{100};

// In its own thread, until the worker closes it or sends what is no line.
void serve_connection(const os::Fd& connection, const Answer& answer) {
  while (os::wait_until_ready(connection.get(), TimePoint::max())) {
    const auto line = os::receive_line(connection.get(), os::now() + k_line_limit);
    if (!line) return;
    const std::string text = answer(&connection, &*line) + "\n";
    if (!os::send_whole(connection.get(), text, {}, os::now() + k_line_limit)) return;
  }
}

}  // namespace

os::Fd listen_for_workers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error(printable(path) + " is too long for a socket", "--checkpoint-folder has to be shorter");
  std::memcpy(address.sun_path, path.data(), path.size());
  os::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::unlink(path.c_str());
  if (!listener || ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), k_backlog) != 0)
    throw os::system_failure("cannot listen at " + printable(path), errno);
  return listener;
}

void serve_workers(const os::Fd& listener, const Answer& answer) {
  static std::atomic<int> connections = 0;
  while (true) {
    auto connection = std::make_shared<os::Fd>(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!*connection) {
      std::this_thread::sleep_for(k_accept_pause);
      continue;
    }
    if (connections >= k_most_connections || !os::is_of_this_user(connection->get())) continue;
    ++connections;
    try {
      std::thread([connection, &answer] {
        serve_connection(*connection, answer);
        answer(connection.get(), nullptr);
        --connections;
      }).detach();
    } catch (const std::system_error&) {
      --connections;
    }
  }
}

}  // namespace ddprun::checkpoints
