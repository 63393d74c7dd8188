#include "inspection/socket_question.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "os/clock.hpp"

namespace ddprun::inspection {

namespace {

constexpr std::size_t k_largest_answer = std::size_t{8} << 20;

template <class Address>
os::Fd begin_to_connect(int family, const Address& address) {
  os::Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {};
  const int result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return result == 0 || errno == EINPROGRESS ? std::move(socket) : os::Fd();
}

}  // namespace

os::Fd connect_to_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return {};
  std::ranges::copy(path, address.sun_path);
  return begin_to_connect(AF_UNIX, address);
}

os::Fd connect_to_local_port(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return begin_to_connect(AF_INET, address);
}

pollfd SocketQuestion::polled() const {
  return {socket_.get(), static_cast<short>(sent_ < request_.size() ? POLLOUT : POLLIN), 0};
}

void SocketQuestion::go_on() {
  if (sent_ < request_.size()) return send();
  std::array<char, 65536> buffer;
  const ssize_t length = ::read(socket_.get(), buffer.data(), buffer.size());
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (length > 0) answer_.append(buffer.data(), static_cast<std::size_t>(length));
  whole_ = length == 0;
  if (length <= 0 || answer_.size() > k_largest_answer) socket_ = os::Fd();
}

void SocketQuestion::send() {
  const ssize_t length =
      ::send(socket_.get(), request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL);
  if (length >= 0) sent_ += static_cast<std::size_t>(length);
  if (length < 0 && errno != EAGAIN && errno != EINTR) socket_ = os::Fd();
}

SocketQuestion post(const std::string& socket_path, std::string_view handler) {
  return {connect_to_path(socket_path),
          fmt::format("POST /handler/{} HTTP/1.1\r\nHost: worker\r\nContent-Length: 0\r\n"
                      "Connection: close\r\n\r\n",
                      handler)};
}

std::optional<std::string_view> body_of(const SocketQuestion& posted) {
  const std::string_view answer = posted.answer().value_or("");
  const std::size_t head = answer.find("\r\n\r\n");
  if (head == std::string_view::npos) return std::nullopt;
  if (!answer.starts_with("HTTP/1.1 200") && !answer.starts_with("HTTP/1.0 200")) return std::nullopt;
  return answer.substr(head + 4);
}

void ask_all(const std::vector<SocketQuestion*>& questions, Milliseconds limit) {
  const TimePoint deadline = os::now() + limit;
  while (true) {
    std::vector<pollfd> polled;
    std::vector<SocketQuestion*> open;
    for (SocketQuestion* const question : questions) {
      if (!question->is_open()) continue;
      polled.push_back(question->polled());
      open.push_back(question);
    }
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - os::now()).count();
    if (open.empty() || left <= 0) return;
    if (::poll(polled.data(), polled.size(), static_cast<int>(left)) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (polled[i].revents != 0) open[i]->go_on();
    }
  }
}

}  // namespace ddprun::inspection
