#include "net/tcp_tools.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <utility>

#include "base/text.hpp"
#include "rendezvous/coordinator_address.hpp"
#include "rendezvous/host_limits.hpp"

namespace ddprun::net {

namespace {

constexpr int k_rto_max_ms = 44;  // TCP_RTO_MAX_MS, which older headers lack

// Asio's form of an integer option of the TCP level.
template <int Name>
class TcpOption {
 public:
  explicit TcpOption(int value) : value_(value) {}
  template <class Protocol>
  int level(const Protocol&) const {
    return IPPROTO_TCP;
  }
  template <class Protocol>
  int name(const Protocol&) const {
    return Name;
  }
  template <class Protocol>
  const int* data(const Protocol&) const {
    return &value_;
  }
  template <class Protocol>
  std::size_t size(const Protocol&) const {
    return sizeof value_;
  }

 private:
  int value_;
};

struct Probes {
  int pause;  // seconds, before the first and between them
  int count;  // unanswered ones, a pause before the end
};

Probes probes_for(const LinkLimit& limit) {
  const Milliseconds pause = rendezvous::probe_pause(limit.time);
  const std::int64_t pauses = (longest_silence(limit) + pause - Milliseconds{1}) / pause;
  return {static_cast<int>(std::chrono::floor<std::chrono::seconds>(pause).count()),
          static_cast<int>(std::clamp<std::int64_t>(pauses - 1, 1, 127))};  // Linux takes no more
}

}  // namespace

// Returns the limit if it is exact; else the time of one probe more than fit, since the last of those that do
// may be lost to a cut that is shorter, and the pause before the first.
Milliseconds longest_silence(const LinkLimit& limit) {
  if (limit.exact) return limit.time;
  const Milliseconds pause = rendezvous::probe_pause(limit.time);
  return (limit.time + pause - Milliseconds{1}) / pause * pause + 2 * pause;
}

void watch_connection(Tcp::socket& socket, const LinkLimit& limit) {
  const Probes probes = probes_for(limit);
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  boost::system::error_code ignored;  // a kernel without one of these notices later
  socket.set_option(Tcp::no_delay(true), ignored);
  socket.set_option(Tcp::socket::keep_alive(true), ignored);
  socket.set_option(TcpOption<TCP_KEEPIDLE>(probes.pause), ignored);
  socket.set_option(TcpOption<TCP_KEEPINTVL>(probes.pause), ignored);
  socket.set_option(TcpOption<TCP_KEEPCNT>(probes.count), ignored);
}

bool repeat_every_second(Tcp::socket& socket, const LinkLimit& limit) {
  boost::system::error_code error, ignored;
  socket.set_option(TcpOption<k_rto_max_ms>(1000), error);
  // The kernel counts repetitions otherwise, and 15 of them (tcp_retries2) are 13 seconds now. It measures
  // probes by this too.
  if (!error || limit.exact) {
    const auto silence = std::min<std::int64_t>(longest_silence(limit).count(), INT_MAX);
    socket.set_option(TcpOption<TCP_USER_TIMEOUT>(static_cast<int>(silence)), ignored);
  }
  return !error;
}

Milliseconds silence_of(Tcp::socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return Milliseconds{std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)};
}

std::size_t undelivered_bytes(Tcp::socket& socket) {
  int count = 0;
  return ::ioctl(socket.native_handle(), SIOCOUTQ, &count) == 0 ? static_cast<std::size_t>(count) : 0;
}

std::string describe_error(const boost::system::error_code& error) {
  namespace e = boost::asio::error;
  if (error == e::eof) return "the connection was closed";
  if (error == e::connection_refused) return "connection refused";
  if (error == e::connection_reset || error == e::broken_pipe) return "connection reset by the other side";
  if (error == e::timed_out) return "the host no longer answers";
  if (error == e::host_unreachable) return "no route to the host";
  if (error == e::network_unreachable) return "no route to the network";
  return to_lower(error.message());
}

std::string remote_address(const Tcp::socket& socket) {
  boost::system::error_code error;
  const Tcp::endpoint endpoint = socket.remote_endpoint(error);
  return error ? std::string() : rendezvous::plain_address(endpoint.address().to_string());
}

std::string local_address(const Tcp::socket& socket) {
  boost::system::error_code error;
  const Tcp::endpoint endpoint = socket.local_endpoint(error);
  return error ? std::string() : rendezvous::plain_address(endpoint.address().to_string());
}

std::string routed_local_address(const std::string& address) {
  boost::system::error_code error;
  const auto numeric = boost::asio::ip::make_address(address, error);
  if (error) return {};
  constexpr unsigned short k_discard_port = 9;
  boost::asio::io_context context;
  boost::asio::ip::udp::socket socket(context);
  socket.connect({numeric, k_discard_port}, error);
  if (error) return {};
  const auto endpoint = socket.local_endpoint(error);
  return error ? std::string() : rendezvous::plain_address(endpoint.address().to_string());
}

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
