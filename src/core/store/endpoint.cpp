#include "store/endpoint.hpp"

#include <algorithm>
#include <cstring>

namespace ddprun::store {
namespace {

void close_rest(LinkParts& parts, std::string& rest) {
  if (!rest.empty()) parts.push_back(std::make_shared<const std::string>(std::exchange(rest, {})));
}

}  // namespace

StoreEndpoint::StoreEndpoint(const StoreLimits& limits, std::optional<StoreDialect> old_dialect)
    : limits_(limits), memory_(limits.memory) {
  old_torch_.known = old_dialect;
}

StoreClient StoreEndpoint::connect() {
  ++old_torch_.silent_connections;
  return add_peer();
}

StoreClient StoreEndpoint::connect_elsewhere() {
  const StoreClient client = add_peer();
  peer(client).elsewhere = true;
  return client;
}

StoreClient StoreEndpoint::add_peer() {
  if (free_.empty()) {
    peers_.emplace_back();
    return StoreClient{static_cast<int>(peers_.size()) - 1};
  }
  const StoreClient client = free_.back();
  free_.pop_back();
  return client;
}

void StoreEndpoint::disconnect(StoreClient client) {
  Peer& gone = peer(client);
  if (gone.session.silent() && !gone.elsewhere) --old_torch_.silent_connections;
  release(client, gone.unread);
  memory_.remove(client, gone.held);
  std::exchange(gone, Peer());  // frees what it held; an assignment would keep the memory
  forget(client);
  memory_.forget(client);
  std::erase(resumed_, client);
  free_.push_back(client);
}

std::optional<std::string> StoreEndpoint::receive(StoreClient client, std::string_view bytes,
                                                  std::string& reply,
                                                  std::vector<StoreDelivery>& deliveries) {
  Peer& from = peer(client);
  from.starved = from.held_back = false;
  auto complaint =
      from.session.receive(bytes, limits_, old_torch_, [&](const StoreRequest& request, StoreTurn& turn) {
        return handle(client, request, reply, deliveries, turn);
      });
  // peers_ may have grown meanwhile.
  if (!complaint && session(client).held() != peer(client).held)
    complaint = account_for_half_a_request(client);
  return complaint;
}

std::optional<std::string> StoreEndpoint::account_for_half_a_request(StoreClient client) {
  Peer& from = peer(client);
  const std::size_t now = from.session.held();
  const std::size_t more = now > from.held ? now - from.held : 0;
  if (more > 0 && !memory_.has_room(client, more)) return refuse_memory(client, more);
  memory_.remove(client, from.held);
  memory_.add(client, now);
  from.held = now;
  return std::nullopt;
}

std::string StoreEndpoint::refuse_memory(StoreClient client, std::size_t bytes) {
  peer(client).exceeds_memory = true;
  return memory_.complaint(client, bytes);
}

bool StoreEndpoint::hold(StoreClient client, std::size_t bytes) {
  std::size_t& unread = peer(client).unread;
  if (unread + bytes > k_small_answer && !memory_.has_room(client, bytes)) return false;
  memory_.add(client, bytes);
  unread += bytes;
  unread_ += bytes;
  return true;
}

void StoreEndpoint::release(StoreClient client, std::size_t bytes) {
  memory_.remove(client, bytes);
  peer(client).unread -= bytes;
  unread_ -= bytes;
}

void StoreEndpoint::note_process(StoreClient client, const StoreRequest& request) {
  if (request.operation != StoreOperation::ping) return;
  std::uint32_t process = 0;
  std::memcpy(&process, request.body.data(), sizeof process);
  peer(client).process = process;
}

StoreLink StoreEndpoint::add_child() {
  const StoreLink child{++last_link_};
  links_.try_emplace(child.value);
  return child;
}

void StoreEndpoint::remove_child(StoreLink child) {
  if (links_.erase(child.value) == 0) return;
  output_.erase(child.value);
  forget(child);
}

std::vector<StoreLink> StoreEndpoint::children() const {
  std::vector<StoreLink> children;
  for (const auto& [number, reader] : links_) {
    if (number != k_parent_link.value) children.push_back(StoreLink{number});
  }
  return children;
}

bool StoreEndpoint::receive_from(StoreLink link, std::string_view bytes) {
  return links_[link.value].receive(bytes, limits_, [&](const TreeMessage& message) {
    return is_from_child(message.kind) == (link != k_parent_link) && hear(link, message);
  });
}

void StoreEndpoint::say(StoreLink link, const TreeMessage& message) {
  write_message(output_[link.value].rest, message);
}

void StoreEndpoint::say(const std::vector<StoreLink>& links, const TreeMessage& message, Written& written) {
  if (message.text.size() < limits_.shared) {
    for (const StoreLink link : links) say(link, message);
    return;
  }
  auto shared = written.lock();
  if (!shared) {
    std::string bytes;
    write_message(bytes, message);
    written = shared = std::make_shared<const std::string>(std::move(bytes));
  }
  for (const StoreLink link : links) {
    Owed& owed = output_[link.value];
    close_rest(owed.parts, owed.rest);
    owed.parts.push_back(shared);
  }
}

void StoreEndpoint::resume(StoreClient client) {
  if (std::exchange(peer(client).held_back, false)) resumed_.push_back(client);
}

StoreOutput StoreEndpoint::take_output() {
  StoreOutput output;
  for (auto& [number, owed] : std::exchange(output_, {})) {
    close_rest(owed.parts, owed.rest);
    output.links.emplace_back(StoreLink{number}, std::move(owed.parts));
  }
  output.deliveries = std::exchange(late_, {});
  output.resumed = std::exchange(resumed_, {});
  output.refused = std::exchange(refused_, {});
  return output;
}

}  // namespace ddprun::store
