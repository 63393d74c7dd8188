#include "net/store_links.hpp"

#include <utility>

#include "rendezvous/codec.hpp"

namespace ddprun::net {
namespace {

constexpr std::size_t k_frame = 256 * 1024;
// Beyond that a child is not heard, and a relay's clients wait.
constexpr std::size_t k_congested = 16 * 1024 * 1024;

}  // namespace

store::StoreLink StoreLinks::add_child(std::shared_ptr<Connection> connection) {
  const store::StoreLink child = endpoint_.add_child();
  connections_[child] = std::move(connection);
  return child;
}

void StoreLinks::set_parent(std::shared_ptr<Connection> connection) {
  connections_[store::k_parent_link] = std::move(connection);
  send(store::k_parent_link, std::exchange(to_parent_, {}));
  endpoint_.note_congestion(false);
}

void StoreLinks::remove_child(store::StoreLink child) {
  connections_.erase(child);
  endpoint_.remove_child(child);
}

void StoreLinks::send(store::StoreLink link, const std::string& bytes) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) {
    if (link == store::k_parent_link) check_congestion(link, to_parent_.append(bytes).size());
    return;
  }
  for (std::size_t begin = 0; begin < bytes.size(); begin += k_frame)
    found->second->send(rendezvous::make_frame(std::string_view(bytes).substr(begin, k_frame)));
  check_congestion(link, found->second->unsent());
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
