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

#include "store/request.hpp"
#include "store/session.hpp"
#include "store/store_state.hpp"

namespace ddprun::store {

struct StoreDelivery {
  std::vector<StoreClient> clients;
  std::string bytes;  // for each of them
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

  // Complete requests of the client wait: its turn is over, or (starved) there is no memory for an answer
  // while others have not read theirs. proceed() goes on with them.
  bool paused(StoreClient client) const { return session(client).paused(); }
  bool starved(StoreClient client) const { return peers_[index(client)].starved; }
  // What was said of it last is that there is no room for it.
  bool exceeds_memory(StoreClient client) const { return peers_[index(client)].exceeds_memory; }
  std::optional<std::string> proceed(StoreClient client, std::string& reply,
                                     std::vector<StoreDelivery>& deliveries) {
    return receive(client, {}, reply, deliveries);
  }
  // Bytes for the client that the network has not taken. False: they are more than it may have.
  bool hold(StoreClient client, std::size_t bytes);
  void release(StoreClient client, std::size_t bytes);
  // The number of torch's process by its own word (PING), for messages.
  std::optional<std::uint32_t> process(StoreClient client) const { return peers_[index(client)].process; }

  const StoreMemory& memory() const { return memory_; }
  const StoreState& state() const { return state_; }
  const StoreSession& session(StoreClient client) const { return peers_[index(client)].session; }

 private:
  static std::size_t index(StoreClient client) { return static_cast<std::size_t>(client.value); }
  struct Peer {
    StoreSession session;
    std::size_t held = 0;    // of the session, as put down
    std::size_t unread = 0;  // held by hold()
    std::optional<std::uint32_t> process;
    bool starved = false;
    bool exceeds_memory = false;
  };
  std::optional<std::string> handle(StoreClient client, const StoreRequest& request, std::string& reply,
                                    std::vector<StoreDelivery>& deliveries, StoreTurn& turn);
  bool answer_fits(StoreClient client, const StoreRequest& request, const std::string& reply) const;
  std::optional<std::string> account_for_half_a_request(StoreClient client);
  std::string refuse_memory(StoreClient client, std::size_t bytes);
  std::size_t deliver(StoreClient requester, std::string& reply, std::vector<StoreDelivery>& deliveries);

  StoreLimits limits_;
  OldTorch old_torch_;
  StoreMemory memory_;
  std::size_t unread_ = 0;  // by all
  StoreState state_;
  StoreEffects effects_;
  std::vector<Peer> peers_;
  std::vector<StoreClient> free_;
};

}  // namespace ddprun::store
