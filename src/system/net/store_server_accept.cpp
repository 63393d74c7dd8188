#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/error.hpp"
#include "net/store_server_impl.hpp"
#include "net/tcp_tools.hpp"
#include "net/timers.hpp"

namespace ddprun::net {

namespace {

// Pause before the next try: descriptors may become free elsewhere in the program, without a notice.
constexpr std::chrono::milliseconds k_accept_pause{200};

constexpr std::size_t k_descriptors_kept = 256;  // for the rest of the program
constexpr std::size_t k_least_connections = 64;

}  // namespace

std::string error_text(int error) { return describe_error({error, boost::system::system_category()}); }

BoundSocket listen_on(int port, int backlog) {
  const BoundSocket listener = bind_port(port, backlog);
  if (listener.error == 0) return listener;
  const std::string where = port == 0 ? std::string("any port") : fmt::format("port {}", port);
  std::string hint;
  if (listener.error == EADDRINUSE)
    hint = "another program listens there; choose another port or leave the choice to ddprun";
  if (listener.error == EMFILE) hint = k_descriptors_hint;
  if (listener.error == EACCES) hint = "ports below 1024 need privileges; choose a higher one";
  throw Error(fmt::format("the store cannot listen on {}: {}", where, error_text(listener.error)), hint);
}

BoundSocket listen_on_loopback(int backlog) {
  const BoundSocket listener = bind_loopback(backlog);
  if (listener.error == 0) return listener;
  throw Error(fmt::format("the store cannot listen on 127.0.0.1: {}", error_text(listener.error)),
              listener.error == EMFILE ? k_descriptors_hint : "");
}

std::size_t connections_allowed() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX / 4;
  const auto descriptors = static_cast<std::size_t>(limit.rlim_cur);
  return std::max(k_least_connections, descriptors - std::min(descriptors / 4, k_descriptors_kept));
}

bool out_of_room(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

void StoreServer::Impl::accept_some() {
  for (int i = 0; i < k_events_a_round; ++i) {
    const int descriptor = ::accept4(listener_.descriptor, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) {
      if (out_of_room(errno)) return pause_accepting(errno);
      if (errno == EAGAIN) return;
      continue;  // the connection failed before it was accepted
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

// Reports whether a host may have one more: three times as many connections as it leaves free, so that there
// is always some room for another host.
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
  call_after(pause_, k_accept_pause, [self = shared_from_this()] {
    if (!self->closed_) self->resume_accepting();
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
  const store::StoreClient client = endpoint_->connect();
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
  told_open_ = connections();
  if (options_.connected) options_.connected(told_open_);
  if (first_bytes.empty() || !take(client, first_bytes)) return;
  finish_turn(client);
  wake_for_busy();
}

namespace {

constexpr std::size_t k_frame = 256 * 1024;
// Limit beyond which a child is not heard, and a relay's clients wait.
constexpr std::size_t k_congested = 16 * 1024 * 1024;

}  // namespace

store::StoreLink StoreLinks::add_child(std::shared_ptr<Connection> connection) {
  const store::StoreLink child = endpoint_.add_child();
  connections_[child] = std::move(connection);
  return child;
}

void StoreLinks::set_parent(std::shared_ptr<Connection> connection) {
  connections_[store::k_parent_link] = std::move(connection);
  kept_ = 0;
  send(store::k_parent_link, std::exchange(to_parent_, {}));
  endpoint_.note_congestion(false);
}

void StoreLinks::remove_child(store::StoreLink child) {
  connections_.erase(child);
  endpoint_.remove_child(child);
}

void StoreLinks::send(store::StoreLink link, store::LinkParts parts) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) {
    if (link == store::k_parent_link) keep(std::move(parts));
    return;
  }
  for (const auto& part : parts) {
    for (std::size_t begin = 0; begin < part->size(); begin += k_frame)
      found->second->send_part(part, begin, std::min(k_frame, part->size() - begin));
  }
  check_congestion(link, found->second->unsent());
}

void StoreLinks::keep(store::LinkParts parts) {
  for (auto& part : parts) {
    kept_ += part->size();
    to_parent_.push_back(std::move(part));
  }
  check_congestion(store::k_parent_link, kept_);
}

void StoreLinks::check_congestion(store::StoreLink link, std::size_t unsent) {
  if (unsent < k_congested) return;
  if (link == store::k_parent_link) return endpoint_.note_congestion(true);
  connections_.at(link)->listen(false);
}

void StoreLinks::note_drained(store::StoreLink link) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  if (link == store::k_parent_link) return endpoint_.note_congestion(false);
  found->second->listen(true);
}

void StoreLinks::close() {
  for (auto& [link, connection] : std::exchange(connections_, {})) connection->close();
}

}  // namespace ddprun::net
