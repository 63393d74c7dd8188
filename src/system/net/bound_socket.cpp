#include "net/bound_socket.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace ddprun::net {
namespace {

// Closes on every way out but release().
class Socket {
 public:
  explicit Socket(int family) : number_(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (number_ >= 0) ::close(number_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

bool set_option(int descriptor, int level, int name, int value) {
  return ::setsockopt(descriptor, level, name, &value, sizeof value) == 0;
}

bool bind_everywhere(int descriptor, int family, int port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_ANY);
  four.sin_port = six.sin6_port;
  const bool dual = family == AF_INET6;
  if (dual && !set_option(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 0)) return false;
  const auto* address =
      dual ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  return ::bind(descriptor, address, dual ? sizeof six : sizeof four) == 0;
}

int bound_port(int descriptor) {
  sockaddr_in6 address{};  // the port lies at the same place in both families
  socklen_t size = sizeof address;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

// Tries to bind. SO_REUSEADDR lets a port be used again while connections of a former listener are in
// TIME_WAIT, if that one had it too; Linux still refuses a second listener. Set before binding to port 0 it
// could give a port that another socket has bound and is about to listen on, so there it comes after.
BoundSocket try_bind(int family, int port, int backlog, bool alone) {
  Socket socket(family);
  if (socket.get() < 0) return {-1, 0, false, errno};
  const auto allow_reuse = [&] { return alone || set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1); };
  const bool bound = (port == 0 || allow_reuse()) && bind_everywhere(socket.get(), family, port) &&
                     (port != 0 || allow_reuse()) && (backlog == 0 || ::listen(socket.get(), backlog) == 0);
  if (!bound) return {-1, 0, false, errno};
  const int number = bound_port(socket.get());
  return {socket.release(), number, family == AF_INET6, 0};
}

BoundSocket bind_in_any_family(int port, int backlog, bool alone) {
  const BoundSocket result = try_bind(AF_INET6, port, backlog, alone);
  const bool no_ipv6 = result.error == EAFNOSUPPORT || result.error == EADDRNOTAVAIL;
  return no_ipv6 ? try_bind(AF_INET, port, backlog, alone) : result;
}

}  // namespace

BoundSocket bind_port(int port, int backlog) { return bind_in_any_family(port, backlog, false); }
BoundSocket bind_loopback(int backlog) {
  Socket socket(AF_INET);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = socket.get() >= 0 &&
                     ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                     ::listen(socket.get(), backlog) == 0;
  if (!bound) return {-1, 0, false, errno};
  const int number = bound_port(socket.get());
  return {socket.release(), number, false, 0};
}
BoundSocket keep_port(int port) { return bind_in_any_family(port, 0, true); }

int begin_listening(const BoundSocket& socket, int backlog) {
  return ::listen(socket.descriptor, backlog) == 0 ? 0 : errno;
}

}  // namespace ddprun::net
