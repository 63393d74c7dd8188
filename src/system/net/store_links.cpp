#include "net/store_links.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::net {
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
