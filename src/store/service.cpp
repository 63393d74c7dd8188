#include "store/service.hpp"

#include <cstring>
#include <utility>

#include "store/answer.hpp"

namespace ddprun::store {
namespace {

constexpr std::size_t k_small_answer = 64 * 1024;  // what any connection may have

}  // namespace

StoreService::StoreService(const StoreLimits& limits, std::optional<StoreDialect> old_dialect)
    : limits_(limits), memory_(limits.memory), state_(limits.value, memory_) {
  old_torch_.known = old_dialect;
}

StoreClient StoreService::connect() {
  ++old_torch_.silent_connections;
  if (free_.empty()) {
    peers_.emplace_back();
    return StoreClient{static_cast<int>(peers_.size()) - 1};
  }
  const StoreClient client = free_.back();
  free_.pop_back();
  return client;
}

void StoreService::disconnect(StoreClient client) {
  Peer& peer = peers_[index(client)];
  if (peer.session.silent()) --old_torch_.silent_connections;
  release(client, peer.unread);
  memory_.remove(client, peer.held);
  std::exchange(peer, Peer());  // frees what it held; an assignment would keep the memory
  state_.forget(client);
  memory_.forget(client);
  free_.push_back(client);
}

std::optional<std::string> StoreService::receive(StoreClient client, std::string_view bytes,
                                                 std::string& reply, std::vector<StoreDelivery>& deliveries) {
  Peer& peer = peers_[index(client)];
  peer.starved = false;
  auto complaint =
      peer.session.receive(bytes, limits_, old_torch_, [&](const StoreRequest& request, StoreTurn& turn) {
        return handle(client, request, reply, deliveries, turn);
      });
  if (!complaint && peer.session.held() != peer.held) complaint = account_for_half_a_request(client);
  return complaint;
}

std::optional<std::string> StoreService::handle(StoreClient client, const StoreRequest& request,
                                                std::string& reply, std::vector<StoreDelivery>& deliveries,
                                                StoreTurn& turn) {
  const std::size_t kept = kept_bytes(request);
  if (kept > 0 && !memory_.has_room(client, kept)) return refuse_memory(client, kept);
  if (!answer_fits(client, request, reply)) {
    turn.over = turn.not_yet = true;
    if (!reply.empty()) return std::nullopt;  // these go first
    if (unread_ == 0) return refuse_memory(client, reply_bytes(request, state_));
    peers_[index(client)].starved = true;
    return std::nullopt;
  }
  if (request.operation == StoreOperation::ping) {
    std::uint32_t process = 0;
    std::memcpy(&process, request.body.data(), sizeof process);
    peers_[index(client)].process = process;
  }
  effects_.by = client;
  auto complaint = answer(request, client, limits_, state_, effects_, reply);
  std::size_t due = reply.size();
  if (!effects_.woken.empty() || !effects_.notices.empty()) due += deliver(client, reply, deliveries);
  turn.over = due >= limits_.turn;
  return complaint;
}

// What the network does not take at once has to be kept.
bool StoreService::answer_fits(StoreClient client, const StoreRequest& request,
                               const std::string& reply) const {
  if (memory_.has_room(client, reply.size() + limits_.reply)) return true;  // whatever is asked
  const std::size_t bytes = reply_bytes(request, state_);
  return bytes <= k_small_answer || memory_.has_room(client, reply.size() + bytes);
}

std::optional<std::string> StoreService::account_for_half_a_request(StoreClient client) {
  Peer& peer = peers_[index(client)];
  const std::size_t now = peer.session.held();
  const std::size_t more = now > peer.held ? now - peer.held : 0;
  if (more > 0 && !memory_.has_room(client, more)) return refuse_memory(client, more);
  memory_.remove(client, peer.held);
  memory_.add(client, now);
  peer.held = now;
  return std::nullopt;
}

std::string StoreService::refuse_memory(StoreClient client, std::size_t bytes) {
  peers_[index(client)].exceeds_memory = true;
  return memory_.complaint(client, bytes);
}

bool StoreService::hold(StoreClient client, std::size_t bytes) {
  std::size_t& unread = peers_[index(client)].unread;
  if (unread + bytes > k_small_answer && !memory_.has_room(client, bytes)) return false;
  memory_.add(client, bytes);
  unread += bytes;
  unread_ += bytes;
  return true;
}

void StoreService::release(StoreClient client, std::size_t bytes) {
  memory_.remove(client, bytes);
  peers_[index(client)].unread -= bytes;
  unread_ -= bytes;
}

// The bytes that others get, each copy counted.
std::size_t StoreService::deliver(StoreClient requester, std::string& reply,
                                  std::vector<StoreDelivery>& deliveries) {
  std::size_t sum = 0;
  const auto hand_out = [&](std::vector<StoreClient> clients, std::string bytes) {
    if (std::erase(clients, requester) > 0) reply.append(bytes);
    sum += clients.size() * bytes.size();
    if (!clients.empty()) deliveries.push_back({std::move(clients), std::move(bytes)});
  };
  if (!effects_.woken.empty())
    hand_out(std::exchange(effects_.woken, {}), std::string(1, k_store_stop_waiting));
  for (WatchNotice& notice : effects_.notices) {
    std::string bytes;
    append_watch_notice(bytes, notice);
    hand_out(std::move(notice.clients), std::move(bytes));
  }
  effects_.notices.clear();
  return sum;
}

}  // namespace ddprun::store
