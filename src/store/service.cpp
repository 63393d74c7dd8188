#include "ddprun/store/service.hpp"

#include <utility>

#include "ddprun/store/answer.hpp"

namespace ddprun {

StoreService::StoreService(const StoreLimits& limits, std::optional<StoreDialect> old_dialect)
    : limits_(limits), state_(limits.value) {
  old_torch_.known = old_dialect;
}

StoreClient StoreService::connect() {
  ++old_torch_.silent_connections;
  if (free_.empty()) {
    sessions_.emplace_back();
    return StoreClient{static_cast<int>(sessions_.size()) - 1};
  }
  const StoreClient client = free_.back();
  free_.pop_back();
  return client;
}

void StoreService::disconnect(StoreClient client) {
  StoreSession& session = sessions_[index(client)];
  if (session.silent()) --old_torch_.silent_connections;
  std::exchange(session, StoreSession());  // frees what it held; an assignment would keep the memory
  state_.forget(client);
  free_.push_back(client);
}

std::optional<std::string> StoreService::receive(StoreClient client, std::string_view bytes,
                                                 std::string& reply, std::vector<StoreDelivery>& deliveries) {
  return sessions_[index(client)].receive(bytes, limits_, old_torch_, [&](const StoreRequest& request) {
    auto complaint = answer(request, client, limits_, state_, effects_, reply);
    if (!effects_.woken.empty() || !effects_.notices.empty()) deliver(client, reply, deliveries);
    return complaint;
  });
}

void StoreService::deliver(StoreClient requester, std::string& reply,
                           std::vector<StoreDelivery>& deliveries) {
  for (const StoreClient woken : effects_.woken) {
    if (woken == requester) {
      reply.push_back(k_store_stop_waiting);
    } else {
      deliveries.push_back({woken, std::string(1, k_store_stop_waiting)});
    }
  }
  for (const WatchNotice& notice : effects_.notices) {
    std::string bytes;
    append_watch_notice(bytes, notice);
    if (notice.client == requester) {
      reply.append(bytes);
    } else {
      deliveries.push_back({notice.client, std::move(bytes)});
    }
  }
  effects_.woken.clear();
  effects_.notices.clear();
}

}  // namespace ddprun
