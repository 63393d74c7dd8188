#include "os/process/child_socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "os/descriptors.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

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
