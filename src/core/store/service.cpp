#include "store/service.hpp"

#include <utility>

#include "store/answer.hpp"

namespace ddprun::store {

StoreService::StoreService(const StoreLimits& limits, std::optional<StoreDialect> old_dialect)
    : StoreEndpoint(limits, old_dialect), state_(limits.value, memory_) {}

void StoreService::forget(StoreClient client) { state_.forget(client); }

std::optional<std::string> StoreService::handle(StoreClient client, const StoreRequest& request,
                                                std::string& reply, std::vector<StoreDelivery>& deliveries,
                                                StoreTurn& turn) {
  const std::size_t kept = kept_bytes(request);
  if (kept > 0 && !memory_.has_room(client, kept)) return refuse_memory(client, kept);
  // A relay's client is exempt: its answers are bounded by what that relay's connection may have in transit.
  if (!peer(client).elsewhere && !answer_fits(client, request, reply)) {
    turn.over = turn.not_yet = true;
    if (!reply.empty()) return std::nullopt;  // these go first
    if (unread() == 0) return refuse_memory(client, reply_bytes(request, state_));
    peer(client).starved = true;
    return std::nullopt;
  }
  if (recall_first(client, request)) {
    turn.over = turn.not_yet = peer(client).held_back = true;
    return std::nullopt;
  }
  note_process(client, request);
  effects_.by = client;
  auto complaint = answer(request, client, limits_, state_, effects_, reply);
  std::size_t due = reply.size();
  if (!effects_.woken.empty() || !effects_.notices.empty() || !effects_.wanted.empty())
    due += deliver(client, reply, deliveries);
  turn.over = due >= limits_.turn;
  return complaint;
}

// Reports whether an answer fits into memory: the part that the network does not take at once has to be kept.
bool StoreService::answer_fits(StoreClient client, const StoreRequest& request,
                               const std::string& reply) const {
  if (memory_.has_room(client, reply.size() + limits_.reply)) return true;  // fits any request
  const std::size_t bytes = reply_bytes(request, state_);
  return bytes <= k_small_answer || memory_.has_room(client, reply.size() + bytes);
}

// Delivers an answer. Returns the bytes that others get, each copy counted.
std::size_t StoreService::deliver(StoreClient requester, std::string& reply,
                                  std::vector<StoreDelivery>& deliveries) {
  std::size_t sum = 0;
  const auto hand_out = [&](std::vector<StoreClient> clients, std::string bytes) {
    if (std::erase(clients, requester) > 0) reply.append(bytes);
    take_out_remotes(clients, bytes);
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
  for (const WantedKey& wanted : std::exchange(effects_.wanted, {})) show_to(wanted.links, wanted.key);
  return sum;
}

}  // namespace ddprun::store
