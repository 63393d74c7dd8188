#include "os/process/serving_child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "os/process/helper_child.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

// Receives one message, since the sockets keep their borders; nullopt at the other side's end.
std::optional<std::string> receive(int socket) {
  std::string message(ServingChild::k_limit, '\0');
  ssize_t size = 0;
  do size = ::recv(socket, message.data(), message.size(), 0);
  while (size < 0 && errno == EINTR);
  if (size <= 0) return std::nullopt;
  message.resize(static_cast<std::size_t>(size));
  return message;
}

bool send(int socket, const std::string& message) {
  ssize_t sent = 0;
  do sent = ::send(socket, message.data(), message.size(), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(message.size());
}

// Serves in the child. A message is never empty: its first byte says nothing.
int serve_until_idle(int socket, const std::function<ServingChild::Serve()>& prepare, Milliseconds idle) {
  socket = close_all_but(socket);
  const ServingChild::Serve serve = prepare();
  while (wait_until_ready(socket, now() + idle)) {
    const auto request = receive(socket);
    if (!request || !send(socket, '.' + serve(request->substr(1)))) break;
  }
  return 0;
}

}  // namespace

ServingChild::ServingChild(std::function<Serve()> prepare, Milliseconds idle)
    : prepare_(std::move(prepare)), idle_(idle) {}

// Starts the child. The request is there before it, so that it finds the request however long it takes to
// begin. Returns why there is no child; empty: there is.
std::string ServingChild::start(const std::string& request) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return describe_errno(errno);
  socket_ = Fd(ends[0]);
  const Fd other(ends[1]);
  if (!send(socket_.get(), request)) return describe_errno(errno);
  child_ = fork_helper([&] { return serve_until_idle(other.get(), prepare_, idle_); });
  if (child_ < 0) return describe_errno(errno);
  process_ = open_pidfd(child_);
  return {};
}

void ServingChild::end() {
  if (child_ > 0) end_helper(child_, process_);
  child_ = -1;
  process_ = Fd();
  socket_ = Fd();
}

ChildAnswer ServingChild::ask(const std::string& request, Milliseconds deadline) {
  if (request.size() >= k_limit) return {std::nullopt, fmt::format("more than {} bytes", k_limit), false};
  const std::string message = '.' + request;
  const TimePoint until = now() + deadline;
  // A child that has left for want of requests shows only now.
  for (bool fresh = child_ < 0;; fresh = true) {
    if (const std::string problem = fresh ? start(message) : ""; !problem.empty()) {
      end();
      return {std::nullopt, problem, false};
    }
    const bool sent = fresh || send(socket_.get(), message);
    if (sent && !wait_until_ready(socket_.get(), until)) {
      end();
      return {std::nullopt, fmt::format("no answer within {}", describe_duration(deadline)), true};
    }
    if (auto answer = sent ? receive(socket_.get()) : std::nullopt) return {answer->substr(1), "", false};
    end();
    if (fresh) return {std::nullopt, "the process that asks has ended", false};
  }
}

namespace {

constexpr std::size_t k_most_descriptors = 3;
constexpr std::size_t k_longest_line = 4096;

ssize_t send_some(int socket, std::string_view text, const std::vector<int>& descriptors) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(k_most_descriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t size = std::min(descriptors.size(), k_most_descriptors) * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(header), descriptors.data(), size);
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

SocketPair make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw system_failure("cannot create a socket pair", errno);
  SocketPair pair{Fd(ends[0]), Fd(ends[1])};
  ::fcntl(pair.ours.get(), F_SETFL, O_NONBLOCK);
  return pair;
}

bool send_whole(int socket, std::string_view text, const std::vector<int>& descriptors, TimePoint deadline) {
  bool passed = descriptors.empty();
  while (!text.empty()) {
    const ssize_t sent = send_some(socket, text, passed ? std::vector<int>{} : descriptors);
    if (sent > 0) {
      passed = true;
      text.remove_prefix(static_cast<std::size_t>(sent));
    } else if (!would_wait() || !wait_until_ready(socket, deadline, POLLOUT)) {
      return false;
    }
  }
  return true;
}

ReceivedMessage receive_message(int socket, std::size_t longest, int flags) {
  ReceivedMessage received;
  received.text.resize(longest);
  iovec part{received.text.data(), longest};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(k_most_descriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t length = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  received.text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  const cmsghdr* const header = length > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
    return received;
  std::vector<int> numbers((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(numbers.data(), CMSG_DATA(header), numbers.size() * sizeof(int));
  for (const int number : numbers) received.descriptors.emplace_back(number);
  return received;
}

std::optional<std::string> receive_line(int socket, TimePoint deadline) {
  std::string line;
  while (line.size() < k_longest_line) {
    char next = 0;
    const ssize_t size = ::recv(socket, &next, 1, MSG_DONTWAIT);
    if (size == 1) {
      if (next == '\n') return line;
      line.push_back(next);
    } else if (size == 0 || !would_wait() || !wait_until_ready(socket, deadline)) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

void end_by_socket(int socket, int milliseconds) {
  ::shutdown(socket, SHUT_WR);
  std::array<char, 4096> unread{};
  pollfd ended{socket, POLLIN, 0};
  while (::poll(&ended, 1, milliseconds) > 0 && ::read(socket, unread.data(), unread.size()) > 0) {
  }
  ::close(socket);
}

}  // namespace ddprun::os
