#include "net/store_server.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "net/store_server_impl.hpp"
#include "net/timers.hpp"
#include "store/relay.hpp"
#include "store/service.hpp"

namespace ddprun::net {
namespace {

using asio::ip::tcp;

constexpr int k_reads_a_turn = 16;   // one busy client cannot keep the others waiting for longer
constexpr int k_busy_round = 8;      // with fewer events, looking again at once finds nothing as a rule
constexpr int k_rounds_a_turn = 16;  // nor the store the rest of the program
constexpr std::size_t k_reply_kept = 512 * 1024;
constexpr std::size_t k_relay_holds = 256 * 1024 * 1024;  // bytes of values
constexpr std::size_t k_short_turn = 32 * 1024;           // bytes read and written
}  // namespace

std::unique_ptr<store::StoreEndpoint> StoreServer::Impl::make_endpoint(const StoreServerOptions& options) {
  if (!options.relay) return std::make_unique<store::StoreService>(options.limits, options.old_dialect);
  return std::make_unique<store::StoreRelay>(options.limits, options.old_dialect,
                                             std::min(k_relay_holds, options.limits.memory / 2));
}

int StoreServer::Impl::make_epoll() {
  const int descriptor = ::epoll_create1(EPOLL_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  const int error = errno;
  ::close(listener_.descriptor);
  throw Error(fmt::format("the store cannot watch its connections: {}", error_text(error)),
              error == EMFILE ? k_descriptors_hint : "");
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
    flush();
    if (closed_) return;
    if (!more && count < k_busy_round) break;  // -1 too
  }
  wake_for_busy();
}

// Serves one turn, if it is time for one; reports whether it did.
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
  call_at(busy_timer_, others_until_, [self = shared_from_this()] {
    if (!self->closed_) self->serve_ready();
  });
}

void StoreServer::Impl::serve_in_turn(store::StoreClient client, bool busy) {
  work_ = 0;
  if (endpoint_->paused(client)) {
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

// Keeps a connection that has requests left, whether they wait for a turn, for memory, or until an answer is
// read.
void StoreServer::Impl::finish_turn(store::StoreClient client) {
  if (endpoint_->starved(client)) {
    starved_.push_back(client);
  } else if (endpoint_->paused(client) && !endpoint_->held_back(client) && at(client).unsent.empty()) {
    queue(client);
  }
  watch(client);
}

void StoreServer::Impl::queue(store::StoreClient client) {
  if (!std::exchange(at(client).busy, true)) busy_.push_back(client);
}

// Retries the requests whose answers had no room.
void StoreServer::Impl::feed_starved() {
  for (const store::StoreClient client : std::exchange(starved_, {})) {
    if (at(client).descriptor >= 0 && endpoint_->starved(client)) queue(client);
  }
  wake_for_busy();
}

// Watches the connection: requests are not read while an answer is unread, or the turn is another's.
void StoreServer::Impl::watch(store::StoreClient client) {
  Connection& connection = at(client);
  const bool unread = !connection.unsent.empty();
  const bool reads = !unread && !connection.busy && !endpoint_->paused(client);
  const std::uint32_t events = (reads ? std::uint32_t{EPOLLIN} : 0) | (unread ? std::uint32_t{EPOLLOUT} : 0);
  if (std::exchange(connection.events, events) == events) return;
  control(EPOLL_CTL_MOD, connection.descriptor, events, static_cast<std::uint32_t>(client.value));
}

// Serves an event, which may be stale: its connection closed, and its number given to another, earlier in the
// same round. Then there is nothing to read or write, which does no harm.
void StoreServer::Impl::serve(const epoll_event& event) {
  if (event.data.u32 == k_listener) return accept_some();
  const store::StoreClient client{static_cast<int>(event.data.u32)};
  if ((event.events & EPOLLOUT) != 0 && at(client).descriptor >= 0) send_rest(client);
  if ((event.events & ~std::uint32_t{EPOLLOUT}) == 0 || at(client).descriptor < 0) return;
  if ((at(client).events & EPOLLIN) != 0) return serve_in_turn(client, false);
  if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) drop(client, {});
}

void StoreServer::Impl::read_from(store::StoreClient client) {
  for (int i = 0; i < k_reads_a_turn; ++i) {
    const ssize_t count = ::recv(at(client).descriptor, input_.data(), input_.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return drop(client, {});
    const auto size = static_cast<std::size_t>(count);
    if (!take(client, {input_.data(), size}) || size < input_.size()) return;
    if (endpoint_->paused(client) || !at(client).unsent.empty()) return;
  }
}

// Takes bytes of a client; false when the connection is closed.
bool StoreServer::Impl::take(store::StoreClient client, std::string_view bytes) {
  std::optional<std::string> complaint;
  try {
    complaint = endpoint_->receive(client, bytes, reply_, deliveries_);
  } catch (const std::bad_alloc&) {
    complaint = "there is no memory left for its request";
  }
  work_ += bytes.size() + reply_.size();
  if (!reply_.empty()) send_to(client, reply_);
  deliver(deliveries_);
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

void StoreServer::Impl::deliver(const std::vector<store::StoreDelivery>& deliveries) {
  for (const store::StoreDelivery& delivery : deliveries) {
    work_ += delivery.clients.size() * delivery.bytes.size();
    for (const store::StoreClient each : delivery.clients) send_to(each, delivery.bytes);
  }
}

void StoreServer::Impl::flush() {
  if (closed_ || std::exchange(flushing_, true)) return;
  while (!closed_ && endpoint_->has_output()) {
    store::StoreOutput output = endpoint_->take_output();
    deliver(output.deliveries);
    for (auto& [link, parts] : output.links) links_.send(link, std::move(parts));
    for (const auto& [client, why] : output.refused) {
      if (at(client).descriptor >= 0) drop(client, why);
    }
    for (const store::StoreClient client : output.resumed) {
      if (at(client).descriptor >= 0) queue(client);
    }
  }
  flushing_ = false;
  reached_ = reached_ || endpoint_->clients_elsewhere() > 0;
  if (options_.connected && !closed_ && std::exchange(told_open_, connections()) != connections())
    options_.connected(connections());
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
  if (!endpoint_->hold(client, bytes.size())) return drop(client, "it does not read its answers");
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
  endpoint_->release(client, connection.unsent.size());
  std::string().swap(connection.unsent);
  connection.sent = 0;
  finish_turn(client);
  feed_starved();
}

// Drops a connection. `why` is empty when the peer ended it.
void StoreServer::Impl::drop(store::StoreClient client, std::string_view why) {
  Connection& connection = at(client);
  if (!why.empty()) {
    const auto process = endpoint_->process(client);
    report(fmt::format("the store closed the connection of {}{}: {}",
                       process ? fmt::format("process {} on ", *process) : "",
                       hosts_[static_cast<std::size_t>(client.value)].to_string(), why),
           endpoint_->exceeds_memory(client));
  }
  ::close(connection.descriptor);
  std::string().swap(connection.unsent);
  const auto own = of_host_.find(hosts_[static_cast<std::size_t>(client.value)]);
  if (--own->second == 0) of_host_.erase(own);
  connection = Connection();
  --open_;
  endpoint_->disconnect(client);
  feed_starved();
  if (!accepting_) {
    pause_.cancel();
    resume_accepting();
  }
}

void StoreServer::Impl::close() {
  if (closed_) return;
  closed_ = true;
  links_.close();
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

StoreLinks& StoreServer::links() { return impl_->links(); }

void StoreServer::flush() {
  impl_->flush();
  impl_->wake_for_busy();
}

void StoreServer::adopt(tcp::socket socket, std::string first_bytes) {
  boost::system::error_code ignored;
  socket.native_non_blocking(true, ignored);
  const int descriptor = socket.release(ignored);
  if (ignored) return;
  impl_->adopt(descriptor, first_bytes);
  flush();
}

void StoreServer::decide(const TcpEnds& ends, bool allowed) {
  impl_->decide(ends, allowed);
  flush();
}

void StoreServer::close() { impl_->close(); }

std::size_t StoreServer::connections() const { return impl_->connections(); }

std::size_t StoreServer::memory_used() const { return impl_->memory_used(); }

bool StoreServer::reached() const { return impl_->reached(); }

}  // namespace ddprun::net
