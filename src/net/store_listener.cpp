#include "store_listener.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/system/error_code.hpp>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "ddprun/base/error.hpp"

namespace ddprun {
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

// Zero or the error's number. SO_REUSEADDR lets a port be used again while connections of a former store are
// in TIME_WAIT, if that store had it too; Linux still refuses a second listener. Set before binding to port 0
// it could give a port that another socket has bound and is about to listen on, so there it comes after.
int try_listen(int family, int port, int backlog, ListeningSocket& result) {
  Socket socket(family);
  if (socket.get() < 0) return errno;
  const auto allow_reuse = [&socket] { return set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1); };
  if (port != 0 && !allow_reuse()) return errno;
  if (!bind_everywhere(socket.get(), family, port)) return errno;
  if (port == 0 && !allow_reuse()) return errno;
  if (::listen(socket.get(), backlog) != 0) return errno;
  result.port = bound_port(socket.get());
  result.descriptor = socket.release();
  return 0;
}

std::string hint_for(int error) {
  if (error == EADDRINUSE)
    return "another program listens there; choose another port or leave the choice to ddprun";
  if (error == EACCES) return "ports below 1024 need privileges; choose a higher one";
  return {};
}

}  // namespace

ListeningSocket listen_for_store(int port, int backlog) {
  ListeningSocket result{};
  int error = try_listen(AF_INET6, port, backlog, result);
  if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) error = try_listen(AF_INET, port, backlog, result);
  if (error == 0) return result;
  const std::string why = boost::system::error_code(error, boost::system::system_category()).message();
  const std::string where = port == 0 ? std::string("any port") : fmt::format("port {}", port);
  throw Error(fmt::format("the store cannot listen on {}: {}", where, why), hint_for(error));
}

}  // namespace ddprun
