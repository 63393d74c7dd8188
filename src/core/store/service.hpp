// A whole c10d store, without its sockets.
//
// Where torch's own servers differ from each other or from sense: GET and MULTI_GET of an absent key answer
// an empty value; MULTI_SET happens as a whole or not at all; CANCEL_WAIT is answered even when there is
// nothing to cancel, because the client sends it when its own clock runs out and the wait may have ended
// meanwhile; any other request also ends an outstanding wait, because torch 2.0 and older give up without a
// word.
//
// At the root of a tree it shows its relays keys for which they wait. What would change what they hold of a
// key waits until all of them have forgotten it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "store/endpoint.hpp"

namespace ddprun::store {

class StoreService : public StoreEndpoint {
 public:
  explicit StoreService(const StoreLimits& limits = {},
                        std::optional<StoreDialect> old_dialect = std::nullopt);

  const StoreState& state() const { return state_; }
  std::size_t clients_elsewhere() const override { return remotes_.size(); }

 private:
  std::optional<std::string> handle(StoreClient client, const StoreRequest& request, std::string& reply,
                                    std::vector<StoreDelivery>& deliveries, StoreTurn& turn) override;
  void forget(StoreClient client) override;
  void forget(StoreLink child) override;
  bool hear(StoreLink link, const TreeMessage& message) override;

  bool answer_fits(StoreClient client, const StoreRequest& request, const std::string& reply) const;
  std::size_t deliver(StoreClient requester, std::string& reply, std::vector<StoreDelivery>& deliveries);

  // ---- relays and their clients, service_tree.cpp

  struct Request {
    StoreOperation operation;
    std::string body;
  };
  // A client of a relay.
  struct Remote {
    StoreLink link;
    std::uint32_t channel = 0;
    std::uint32_t carried_out = 0;
    std::deque<Request> waiting;  // behind one that is held back
  };
  // Relays are asked to forget a key, or have forgotten it and the request that wants it so comes next.
  struct Recall {
    std::string key;
    std::set<int> asked;  // links that have not answered
    std::vector<StoreClient> held;
  };

  void take_request(StoreLink link, const TreeMessage& message);
  void carry_out(StoreClient client, const StoreRequest& request);
  void go_on(StoreClient client);
  void close_channel(StoreLink link, std::uint32_t channel);
  void answer_want(StoreLink link, std::string_view key);
  void show_to(const std::vector<StoreLink>& links, std::string_view key);
  void tell_remote(StoreClient client, std::string_view bytes);
  void take_out_remotes(std::vector<StoreClient>& clients, std::string_view bytes);
  bool must_recall(const StoreRequest& request, std::string_view key) const;
  bool recall_first(StoreClient client, const StoreRequest& request);
  void recall(std::string_view key, StoreClient client);
  void note_recalled(StoreLink link, std::uint32_t number);
  void end_recalls(const StoreRequest& request);
  void release_held(Recall& recall);

  StoreState state_;
  StoreEffects effects_;
  std::unordered_map<std::uint64_t, StoreClient> channels_;  // indexed by link and channel
  std::unordered_map<int, Remote> remotes_;                  // indexed by client
  std::map<std::uint32_t, Recall> recalls_;                  // indexed by number
  std::unordered_map<std::string, std::uint32_t> recalled_;  // key to number of them
  std::unordered_set<std::string> queues_;                   // names that relays must not wait for together
  std::uint32_t last_recall_ = 0;
};

}  // namespace ddprun::store
