// A whole c10d store without its sockets: connections come and go, bytes go in, bytes for connections come
// out.
//
// Where torch's own servers differ from each other or from sense: GET and MULTI_GET of an absent key answer
// an empty value; MULTI_SET happens as a whole or not at all; CANCEL_WAIT is answered even when there is
// nothing to cancel, because the client sends it when its own clock runs out and the wait may have ended
// meanwhile; any other request also ends an outstanding wait, because torch 2.0 and older give up without a
// word.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/store/request.hpp"
#include "ddprun/store/session.hpp"
#include "ddprun/store/store_state.hpp"

namespace ddprun {

struct StoreDelivery {
  StoreClient client;
  std::string bytes;
};

class StoreService {
 public:
  // `old_dialect`: what clients before torch 2.2 are, where that is known; see session.hpp.
  explicit StoreService(const StoreLimits& limits = {},
                        std::optional<StoreDialect> old_dialect = std::nullopt);

  StoreClient connect();
  // Forgets the client; its number may be given out again.
  void disconnect(StoreClient client);

  // Appends the client's own replies to `reply` and what it causes for others to `deliveries`. Returns why
  // the connection has to be closed, if so; what is in `reply` by then is still due.
  std::optional<std::string> receive(StoreClient client, std::string_view bytes, std::string& reply,
                                     std::vector<StoreDelivery>& deliveries);

  const StoreState& state() const { return state_; }
  const StoreSession& session(StoreClient client) const { return sessions_[index(client)]; }

 private:
  static std::size_t index(StoreClient client) { return static_cast<std::size_t>(client.value); }
  void deliver(StoreClient requester, std::string& reply, std::vector<StoreDelivery>& deliveries);

  StoreLimits limits_;
  OldTorch old_torch_;
  StoreState state_;
  StoreEffects effects_;
  std::vector<StoreSession> sessions_;
  std::vector<StoreClient> free_;
};

}  // namespace ddprun
