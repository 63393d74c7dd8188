#include "ddprun/net/store_server.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ddprun/base/error.hpp"
#include "ddprun/net/bound_socket.hpp"
#include "ddprun/store/service.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::size_t k_read_size = 64 * 1024;
constexpr int k_reads_a_turn = 16;  // one busy client cannot keep the others waiting for longer
constexpr int k_events_a_round = 256;
constexpr int k_busy_round = 8;      // with fewer events, looking again at once finds nothing as a rule
constexpr int k_rounds_a_turn = 16;  // nor the store the rest of the program
constexpr std::size_t k_reply_kept = 256 * 1024;
constexpr std::uint32_t k_listener = UINT32_MAX;
// Descriptors may become free elsewhere in the program, which nobody tells us.
constexpr std::chrono::milliseconds k_accept_pause{200};

std::string error_text(int error) {
  return boost::system::error_code(error, boost::system::system_category()).message();
}

std::string peer_name(int descriptor) {
  const auto ends = ends_of(descriptor);
  return ends ? ends->client.address().to_string() : "a client that is gone";
}

BoundSocket listen_on(int port, int backlog) {
  const BoundSocket listener = bind_port(port, backlog);
  if (listener.error == 0) return listener;
  const std::string where = port == 0 ? std::string("any port") : fmt::format("port {}", port);
  std::string hint;
  if (listener.error == EADDRINUSE)
    hint = "another program listens there; choose another port or leave the choice to ddprun";
  if (listener.error == EACCES) hint = "ports below 1024 need privileges; choose a higher one";
  throw Error(fmt::format("the store cannot listen on {}: {}", where, error_text(listener.error)), hint);
}

bool out_of_room(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

class StoreServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, StoreServerOptions options)
      : options_(std::move(options)),
        service_(options_.limits, options_.old_dialect),
        listener_(listen_on(options_.port, options_.backlog)),
        epoll_(context, make_epoll()),
        pause_(context) {
    control(EPOLL_CTL_ADD, listener_.descriptor, EPOLLIN, k_listener);
  }
  ~Impl() { close(); }

  int port() const { return listener_.port; }
  std::size_t connections() const { return open_; }
  bool reached() const { return reached_; }
  void wait_until_ready();
  void adopt(int descriptor, std::string_view first_bytes);
  void decide(const TcpEnds& ends, bool allowed);
  void close();

 private:
  struct Connection {
    int descriptor = -1;
    std::size_t sent = 0;  // of unsent
    std::string unsent;    // what the kernel did not take
  };

  struct Waiting {
    int descriptor = -1;
    std::string first_bytes;
  };

  int make_epoll();
  void admit(int descriptor, std::string_view first_bytes);
  bool control(int operation, int descriptor, std::uint32_t events, std::uint32_t slot);
  void serve_ready();
  void serve(const epoll_event& event);
  void accept_some();
  void pause_accepting(int error);
  void resume_accepting();
  void add_connection(int descriptor, std::string_view first_bytes);
  void read_from(StoreClient client);
  bool take(StoreClient client, std::string_view bytes);
  void send_to(StoreClient client, std::string_view bytes);
  void keep_unsent(StoreClient client, std::string_view bytes);
  void send_rest(StoreClient client);
  void drop(StoreClient client, std::string_view why);
  void report(const std::string& text) const {
    if (options_.report) options_.report(text);
  }
  Connection& at(StoreClient client) { return connections_[static_cast<std::size_t>(client.value)]; }

  StoreServerOptions options_;
  StoreService service_;
  BoundSocket listener_;
  asio::posix::stream_descriptor epoll_;
  asio::steady_timer pause_;
  bool accepting_ = true;
  bool closed_ = false;
  bool reached_ = false;
  std::size_t open_ = 0;
  std::vector<Connection> connections_;  // by client number
  std::map<TcpEnds, Waiting> waiting_;
  // Used again from read to read.
  std::array<char, k_read_size> input_;
  std::string reply_;
  std::vector<StoreDelivery> deliveries_;
};

int StoreServer::Impl::make_epoll() {
  const int descriptor = ::epoll_create1(EPOLL_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  const int error = errno;
  ::close(listener_.descriptor);
  throw Error(fmt::format("the store cannot watch its connections: {}", error_text(error)));
}

bool StoreServer::Impl::control(int operation, int descriptor, std::uint32_t events, std::uint32_t slot) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = slot;
  return ::epoll_ctl(epoll_.native_handle(), operation, descriptor, &event) == 0;
}

void StoreServer::Impl::wait_until_ready() {
  epoll_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](const boost::system::error_code& error) {
                      if (error || self->closed_) return;
                      self->serve_ready();
                      if (!self->closed_) self->wait_until_ready();
                    });
}

void StoreServer::Impl::serve_ready() {
  std::array<epoll_event, k_events_a_round> events;
  for (int round = 0; round < k_rounds_a_turn; ++round) {
    const int count = ::epoll_wait(epoll_.native_handle(), events.data(), k_events_a_round, 0);
    if (count <= 0) return;
    for (int i = 0; i < count && !closed_; ++i) serve(events[static_cast<std::size_t>(i)]);
    if (closed_ || count < k_busy_round) return;
  }
}

// An event may be stale: its connection closed, and its number given to another, earlier in the same round.
// Then there is nothing to read or write, which does no harm.
void StoreServer::Impl::serve(const epoll_event& event) {
  if (event.data.u32 == k_listener) return accept_some();
  const StoreClient client{static_cast<int>(event.data.u32)};
  if ((event.events & EPOLLOUT) != 0 && at(client).descriptor >= 0) send_rest(client);
  if ((event.events & ~std::uint32_t{EPOLLOUT}) != 0 && at(client).descriptor >= 0) read_from(client);
}

void StoreServer::Impl::accept_some() {
  for (int i = 0; i < k_events_a_round; ++i) {
    const int descriptor = ::accept4(listener_.descriptor, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) {
      if (out_of_room(errno)) return pause_accepting(errno);
      if (errno == EAGAIN) return;
      continue;  // that connection failed before we came to it
    }
    admit(descriptor, {});
  }
}

void StoreServer::Impl::admit(int descriptor, std::string_view first_bytes) {
  if (!options_.admit) return add_connection(descriptor, first_bytes);
  const auto ends = ends_of(descriptor);
  const Admission admission = ends ? options_.admit(*ends) : Admission::no;
  if (admission == Admission::yes) return add_connection(descriptor, first_bytes);
  if (admission == Admission::wait &&
      waiting_.try_emplace(*ends, Waiting{descriptor, std::string(first_bytes)}).second)
    return;
  ::close(descriptor);
}

void StoreServer::Impl::decide(const TcpEnds& ends, bool allowed) {
  const auto found = waiting_.find(ends);
  if (found == waiting_.end()) return;
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  if (allowed) return add_connection(waiting.descriptor, waiting.first_bytes);
  ::close(waiting.descriptor);
}

void StoreServer::Impl::pause_accepting(int error) {
  if (!accepting_) return;
  accepting_ = false;
  control(EPOLL_CTL_DEL, listener_.descriptor, 0, k_listener);
  report(fmt::format("the store cannot accept more than its {} connections for now: {}", open_,
                     error_text(error)));
  pause_.expires_after(k_accept_pause);
  pause_.async_wait([self = shared_from_this()](const boost::system::error_code& failure) {
    if (!failure && !self->closed_) self->resume_accepting();
  });
}

void StoreServer::Impl::resume_accepting() {
  if (accepting_) return;
  accepting_ = true;
  control(EPOLL_CTL_ADD, listener_.descriptor, EPOLLIN, k_listener);
}

void StoreServer::Impl::adopt(int descriptor, std::string_view first_bytes) {
  if (!closed_) return admit(descriptor, first_bytes);
  ::close(descriptor);
}

void StoreServer::Impl::add_connection(int descriptor, std::string_view first_bytes) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  reached_ = true;
  const StoreClient client = service_.connect();
  const auto slot = static_cast<std::size_t>(client.value);
  if (slot >= connections_.size()) connections_.resize(slot + 1);
  connections_[slot].descriptor = descriptor;
  ++open_;
  if (!control(EPOLL_CTL_ADD, descriptor, EPOLLIN, static_cast<std::uint32_t>(slot))) {
    return drop(client, error_text(errno));
  }
  if (options_.connected) options_.connected(open_);
  if (!first_bytes.empty()) take(client, first_bytes);
}

void StoreServer::Impl::read_from(StoreClient client) {
  for (int i = 0; i < k_reads_a_turn; ++i) {
    const ssize_t count = ::recv(at(client).descriptor, input_.data(), input_.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return drop(client, {});
    const auto size = static_cast<std::size_t>(count);
    if (!take(client, {input_.data(), size}) || size < input_.size()) return;
  }
}

// False when the connection is closed.
bool StoreServer::Impl::take(StoreClient client, std::string_view bytes) {
  const auto complaint = service_.receive(client, bytes, reply_, deliveries_);
  if (!reply_.empty()) send_to(client, reply_);
  for (const StoreDelivery& delivery : deliveries_) send_to(delivery.client, delivery.bytes);
  deliveries_.clear();
  if (reply_.capacity() > k_reply_kept) {
    std::string().swap(reply_);  // an assignment would keep the memory
  } else {
    reply_.clear();
  }
  if (at(client).descriptor < 0) return false;
  if (complaint) drop(client, *complaint);
  return !complaint;
}

void StoreServer::Impl::send_to(StoreClient client, std::string_view bytes) {
  const Connection& connection = at(client);
  if (connection.descriptor < 0) return;
  if (!connection.unsent.empty()) return keep_unsent(client, bytes);
  const ssize_t count =
      ::send(connection.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0 && errno != EAGAIN && errno != EINTR) return drop(client, {});
  const auto sent = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  if (sent < bytes.size()) keep_unsent(client, bytes.substr(sent));
}

void StoreServer::Impl::keep_unsent(StoreClient client, std::string_view bytes) {
  Connection& connection = at(client);
  if (connection.unsent.size() - connection.sent + bytes.size() > options_.max_unsent) {
    return drop(client, "it does not read its answers");
  }
  if (connection.unsent.empty()) {
    control(EPOLL_CTL_MOD, connection.descriptor, EPOLLIN | EPOLLOUT,
            static_cast<std::uint32_t>(client.value));
  }
  connection.unsent.append(bytes);
}

void StoreServer::Impl::send_rest(StoreClient client) {
  Connection& connection = at(client);
  if (connection.unsent.empty()) return;
  const std::string_view rest = std::string_view(connection.unsent).substr(connection.sent);
  const ssize_t count = ::send(connection.descriptor, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count < 0) return drop(client, {});
  connection.sent += static_cast<std::size_t>(count);
  if (connection.sent < connection.unsent.size()) return;
  std::string().swap(connection.unsent);
  connection.sent = 0;
  control(EPOLL_CTL_MOD, connection.descriptor, EPOLLIN, static_cast<std::uint32_t>(client.value));
}

// `why` is empty when the peer ended the connection.
void StoreServer::Impl::drop(StoreClient client, std::string_view why) {
  Connection& connection = at(client);
  if (!why.empty()) {
    report(fmt::format("the store closed the connection of {}: {}", peer_name(connection.descriptor), why));
  }
  ::close(connection.descriptor);
  std::string().swap(connection.unsent);
  connection = Connection();
  --open_;
  service_.disconnect(client);
  if (!accepting_) {
    pause_.cancel();
    resume_accepting();
  }
}

void StoreServer::Impl::close() {
  if (closed_) return;
  closed_ = true;
  pause_.cancel();
  epoll_.close();
  ::close(listener_.descriptor);
  for (Connection& connection : connections_) {
    if (connection.descriptor >= 0) ::close(connection.descriptor);
  }
  for (const auto& [ends, each] : std::exchange(waiting_, {})) ::close(each.descriptor);
  connections_.clear();
  open_ = 0;
}

StoreServer::StoreServer(asio::io_context& context, StoreServerOptions options)
    : impl_(std::make_shared<Impl>(context, std::move(options))) {
  impl_->wait_until_ready();
}

StoreServer::~StoreServer() { close(); }

int StoreServer::port() const { return impl_->port(); }

void StoreServer::adopt(tcp::socket socket, std::string first_bytes) {
  boost::system::error_code ignored;
  socket.native_non_blocking(true, ignored);
  const int descriptor = socket.release(ignored);
  if (!ignored) impl_->adopt(descriptor, first_bytes);
}

void StoreServer::decide(const TcpEnds& ends, bool allowed) { impl_->decide(ends, allowed); }

void StoreServer::close() { impl_->close(); }

std::size_t StoreServer::connections() const { return impl_->connections(); }

bool StoreServer::reached() const { return impl_->reached(); }

}  // namespace ddprun
