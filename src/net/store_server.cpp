#include "net/store_server.hpp"

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
#include <deque>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "net/store_listener.hpp"
#include "store/service.hpp"

namespace ddprun::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::size_t k_read_size = 64 * 1024;
constexpr int k_reads_a_turn = 16;  // one busy client cannot keep the others waiting for longer
constexpr int k_events_a_round = 256;
constexpr int k_busy_round = 8;      // with fewer events, looking again at once finds nothing as a rule
constexpr int k_rounds_a_turn = 16;  // nor the store the rest of the program
constexpr std::size_t k_reply_kept = 512 * 1024;
constexpr std::size_t k_short_turn = 32 * 1024;  // bytes read and written
constexpr std::uint32_t k_listener = UINT32_MAX;
// Descriptors may become free elsewhere in the program, which nobody tells us.
constexpr std::chrono::milliseconds k_accept_pause{200};

}  // namespace

class StoreServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, StoreServerOptions options)
      : options_(std::move(options)),
        service_(options_.limits, options_.old_dialect),
        listener_(listen_on(options_.port, options_.backlog)),
        epoll_(context, make_epoll()),
        pause_(context),
        busy_timer_(context),
        max_connections_(options_.max_connections > 0 ? options_.max_connections : connections_allowed()) {
    control(EPOLL_CTL_ADD, listener_.descriptor, EPOLLIN, k_listener);
  }
  ~Impl() { close(); }

  int port() const { return listener_.port; }
  std::size_t connections() const { return open_; }
  std::size_t memory_used() const { return service_.memory().used(); }
  bool reached() const { return reached_; }
  void wait_until_ready();
  void adopt(int descriptor, std::string_view first_bytes);
  void decide(const TcpEnds& ends, bool allowed);
  void close();

 private:
  struct Connection {
    int descriptor = -1;
    std::uint32_t events = EPOLLIN;  // as epoll knows them
    bool busy = false;               // it waits for its turn in busy_
    std::size_t sent = 0;            // of unsent
    std::string unsent;              // what the kernel did not take
  };
  using Clock = std::chrono::steady_clock;

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
  bool room_for(const asio::ip::address& host);
  void add_connection(int descriptor, const asio::ip::address& host, std::string_view first_bytes);
  void serve_in_turn(store::StoreClient client, bool busy);
  bool serve_busy();
  void wake_for_busy();
  void queue(store::StoreClient client);
  void feed_starved();
  void watch(store::StoreClient client);
  void read_from(store::StoreClient client);
  bool take(store::StoreClient client, std::string_view bytes);
  void finish_turn(store::StoreClient client);
  void send_to(store::StoreClient client, std::string_view bytes);
  void keep_unsent(store::StoreClient client, std::string_view bytes);
  void send_rest(store::StoreClient client);
  void drop(store::StoreClient client, std::string_view why);
  void report(const std::string& text, bool memory = false) const {
    if (options_.report) options_.report(text, memory);
  }
  Connection& at(store::StoreClient client) { return connections_[static_cast<std::size_t>(client.value)]; }

  StoreServerOptions options_;
  store::StoreService service_;
  BoundSocket listener_;
  asio::posix::stream_descriptor epoll_;
  asio::steady_timer pause_;
  bool accepting_ = true;
  bool closed_ = false;
  bool reached_ = false;
  std::size_t open_ = 0;
  // Turns of those that have much to do.
  std::deque<store::StoreClient> busy_;
  std::vector<store::StoreClient> starved_;  // for them there is no memory now
  Clock::time_point turn_began_{};           // or a little earlier
  Clock::time_point others_until_{};
  std::size_t work_ = 0;         // bytes of this turn
  std::size_t short_turns_ = 0;  // since the last long one
  asio::steady_timer busy_timer_;
  std::size_t max_connections_;
  std::map<asio::ip::address, std::size_t> of_host_;  // connections
  std::vector<Connection> connections_;               // by client number
  std::vector<asio::ip::address> hosts_;              // by client number
  std::map<TcpEnds, Waiting> waiting_;
  // Used again from read to read.
  std::array<char, k_read_size> input_;
  std::string reply_;
  std::vector<store::StoreDelivery> deliveries_;
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
    turn_began_ = Clock::now();
    for (int i = 0; i < count && !closed_; ++i) serve(events[static_cast<std::size_t>(i)]);
    if (closed_) return;
    const bool more = serve_busy();
    if (!more && count < k_busy_round) break;  // -1 too
  }
  wake_for_busy();
}

// One turn, if it is time for one.
bool StoreServer::Impl::serve_busy() {
  if (busy_.empty()) return false;
  turn_began_ = Clock::now();
  if (turn_began_ < others_until_) return false;
  const store::StoreClient client = busy_.front();
  busy_.pop_front();
  if (at(client).descriptor < 0 || !std::exchange(at(client).busy, false)) return true;
  if (at(client).unsent.empty()) {
    serve_in_turn(client, true);
  } else {
    watch(client);
  }
  return true;
}

void StoreServer::Impl::wake_for_busy() {
  if (busy_.empty()) return;
  busy_timer_.expires_at(others_until_);
  busy_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error && !self->closed_) self->serve_ready();
  });
}

void StoreServer::Impl::serve_in_turn(store::StoreClient client, bool busy) {
  work_ = 0;
  if (service_.paused(client)) {
    take(client, {});
  } else {
    read_from(client);
  }
  const bool long_one = work_ > k_short_turn;
  if (long_one || busy) {
    const auto end = Clock::now();
    others_until_ = short_turns_ > 0 ? end + (end - turn_began_) : end;
    turn_began_ = end;
    short_turns_ = 0;
  } else {
    ++short_turns_;
  }
  if (at(client).descriptor < 0) return;
  if (long_one) queue(client);
  finish_turn(client);
}

// Where requests are left, whether they wait for a turn, for memory, or until an answer is read.
void StoreServer::Impl::finish_turn(store::StoreClient client) {
  if (service_.starved(client)) {
    starved_.push_back(client);
  } else if (service_.paused(client) && at(client).unsent.empty()) {
    queue(client);
  }
  watch(client);
}

void StoreServer::Impl::queue(store::StoreClient client) {
  if (!std::exchange(at(client).busy, true)) busy_.push_back(client);
}

// Those whose answer had no room have another try.
void StoreServer::Impl::feed_starved() {
  for (const store::StoreClient client : std::exchange(starved_, {})) {
    if (at(client).descriptor >= 0 && service_.starved(client)) queue(client);
  }
  wake_for_busy();
}

// What is to be read waits where an answer is not read, or the turn is another's.
void StoreServer::Impl::watch(store::StoreClient client) {
  Connection& connection = at(client);
  const bool unread = !connection.unsent.empty();
  const bool reads = !unread && !connection.busy && !service_.paused(client);
  const std::uint32_t events = (reads ? std::uint32_t{EPOLLIN} : 0) | (unread ? std::uint32_t{EPOLLOUT} : 0);
  if (std::exchange(connection.events, events) == events) return;
  control(EPOLL_CTL_MOD, connection.descriptor, events, static_cast<std::uint32_t>(client.value));
}

// An event may be stale: its connection closed, and its number given to another, earlier in the same round.
// Then there is nothing to read or write, which does no harm.
void StoreServer::Impl::serve(const epoll_event& event) {
  if (event.data.u32 == k_listener) return accept_some();
  const store::StoreClient client{static_cast<int>(event.data.u32)};
  if ((event.events & EPOLLOUT) != 0 && at(client).descriptor >= 0) send_rest(client);
  if ((event.events & ~std::uint32_t{EPOLLOUT}) == 0 || at(client).descriptor < 0) return;
  if ((at(client).events & EPOLLIN) != 0) return serve_in_turn(client, false);
  if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) drop(client, {});
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
  const auto ends = ends_of(descriptor);
  const bool room = ends && room_for(ends->client.address());
  const Admission admission = !room ? Admission::no : options_.admit ? options_.admit(*ends) : Admission::yes;
  if (admission == Admission::yes) return add_connection(descriptor, ends->client.address(), first_bytes);
  if (admission == Admission::wait &&
      waiting_.try_emplace(*ends, Waiting{descriptor, std::string(first_bytes)}).second)
    return;
  ::close(descriptor);
}

// A host may have three times as many connections as it leaves free, so that there is always some for
// another.
bool StoreServer::Impl::room_for(const asio::ip::address& host) {
  const std::size_t taken = open_ + waiting_.size();
  const std::size_t left = max_connections_ > taken ? max_connections_ - taken : 0;
  const auto found = of_host_.find(host);
  const std::size_t own = found == of_host_.end() ? 0 : found->second;
  if (own < 3 * left) return true;
  report(fmt::format("the store refused a connection of {}: it has {} already, of {} for all hosts",
                     host.to_string(), own, max_connections_));
  return false;
}

void StoreServer::Impl::decide(const TcpEnds& ends, bool allowed) {
  const auto found = waiting_.find(ends);
  if (found == waiting_.end()) return;
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  if (allowed) return add_connection(waiting.descriptor, ends.client.address(), waiting.first_bytes);
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

void StoreServer::Impl::add_connection(int descriptor, const asio::ip::address& host,
                                       std::string_view first_bytes) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  reached_ = true;
  const store::StoreClient client = service_.connect();
  const auto slot = static_cast<std::size_t>(client.value);
  if (slot >= connections_.size()) {
    connections_.resize(slot + 1);
    hosts_.resize(slot + 1);
  }
  connections_[slot].descriptor = descriptor;
  hosts_[slot] = host;
  ++of_host_[host];
  ++open_;
  if (!control(EPOLL_CTL_ADD, descriptor, EPOLLIN, static_cast<std::uint32_t>(slot))) {
    return drop(client, error_text(errno));
  }
  if (options_.connected) options_.connected(open_);
  if (first_bytes.empty() || !take(client, first_bytes)) return;
  finish_turn(client);
  wake_for_busy();
}

void StoreServer::Impl::read_from(store::StoreClient client) {
  for (int i = 0; i < k_reads_a_turn; ++i) {
    const ssize_t count = ::recv(at(client).descriptor, input_.data(), input_.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return drop(client, {});
    const auto size = static_cast<std::size_t>(count);
    if (!take(client, {input_.data(), size}) || size < input_.size()) return;
    if (service_.paused(client) || !at(client).unsent.empty()) return;
  }
}

// False when the connection is closed.
bool StoreServer::Impl::take(store::StoreClient client, std::string_view bytes) {
  std::optional<std::string> complaint;
  try {
    complaint = service_.receive(client, bytes, reply_, deliveries_);
  } catch (const std::bad_alloc&) {
    complaint = "there is no memory left for its request";
  }
  work_ += bytes.size() + reply_.size();
  if (!reply_.empty()) send_to(client, reply_);
  for (const store::StoreDelivery& delivery : deliveries_) {
    work_ += delivery.clients.size() * delivery.bytes.size();
    for (const store::StoreClient each : delivery.clients) send_to(each, delivery.bytes);
  }
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

void StoreServer::Impl::send_to(store::StoreClient client, std::string_view bytes) {
  const Connection& connection = at(client);
  if (connection.descriptor < 0) return;
  if (!connection.unsent.empty()) return keep_unsent(client, bytes);
  const ssize_t count =
      ::send(connection.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0 && errno != EAGAIN && errno != EINTR) return drop(client, {});
  const auto sent = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  if (sent < bytes.size()) keep_unsent(client, bytes.substr(sent));
}

void StoreServer::Impl::keep_unsent(store::StoreClient client, std::string_view bytes) {
  Connection& connection = at(client);
  if (!service_.hold(client, bytes.size())) return drop(client, "it does not read its answers");
  connection.unsent.append(bytes);
  watch(client);
}

void StoreServer::Impl::send_rest(store::StoreClient client) {
  Connection& connection = at(client);
  if (connection.unsent.empty()) return;
  const std::string_view rest = std::string_view(connection.unsent).substr(connection.sent);
  const ssize_t count = ::send(connection.descriptor, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count < 0) return drop(client, {});
  connection.sent += static_cast<std::size_t>(count);
  if (connection.sent < connection.unsent.size()) return;
  service_.release(client, connection.unsent.size());
  std::string().swap(connection.unsent);
  connection.sent = 0;
  finish_turn(client);
  feed_starved();
}

// `why` is empty when the peer ended the connection.
void StoreServer::Impl::drop(store::StoreClient client, std::string_view why) {
  Connection& connection = at(client);
  if (!why.empty()) {
    const auto process = service_.process(client);
    report(fmt::format("the store closed the connection of {}{}: {}",
                       process ? fmt::format("process {} on ", *process) : "",
                       hosts_[static_cast<std::size_t>(client.value)].to_string(), why),
           service_.exceeds_memory(client));
  }
  ::close(connection.descriptor);
  std::string().swap(connection.unsent);
  const auto own = of_host_.find(hosts_[static_cast<std::size_t>(client.value)]);
  if (--own->second == 0) of_host_.erase(own);
  connection = Connection();
  --open_;
  service_.disconnect(client);
  feed_starved();
  if (!accepting_) {
    pause_.cancel();
    resume_accepting();
  }
}

void StoreServer::Impl::close() {
  if (closed_) return;
  closed_ = true;
  pause_.cancel();
  busy_timer_.cancel();
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

std::size_t StoreServer::memory_used() const { return impl_->memory_used(); }

bool StoreServer::reached() const { return impl_->reached(); }

}  // namespace ddprun::net
