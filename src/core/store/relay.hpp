// A relay: what the workers of a host talk to instead of the store of the job, and other relays below it.
//
// What it cannot answer it passes on, in the order of each client. Of keys that it holds (tree_message.hpp)
// it answers WAIT, CHECK, GET and MULTI_GET itself, but only for a client of which the root has carried out
// everything that came before: so each client sees what it and others have done, as with one store. However
// many clients wait for a key, it is asked for once.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/endpoint.hpp"

namespace ddprun::store {

class StoreRelay : public StoreEndpoint {
 public:
  // Makes a relay. `held`: bytes of values that it holds at most; what it has held longest goes first.
  StoreRelay(const StoreLimits& limits, std::optional<StoreDialect> old_dialect, std::size_t held);

  void note_congestion(bool congested) override;
  // Return, for tests, the numbers of keys that it holds or waits for, and of channels to its parent.
  std::size_t keys() const { return keys_.size(); }
  std::size_t channels() const { return routes_.size(); }

 private:
  struct Key {
    enum class State : std::uint8_t { wanted, present, valued, plain };
    State state = State::wanted;
    std::string value;
    Written written{};                 // message with the value, for children
    std::vector<StoreClient> clients;  // clients that wait for it
    std::vector<StoreLink> children;
    std::list<const std::string*>::iterator age{};  // position in ages_ while no client wants it
    bool here() const { return state == State::present || state == State::valued; }
  };
  using Keys = std::unordered_map<std::string, Key>;

  // A client here.
  struct Local {
    std::uint32_t channel = 0;    // 0: none yet
    std::uint32_t forwarded = 0;  // requests
    std::uint32_t carried_out = 0;
    bool waits_there = false;
    std::size_t missing = 0;  // keys of a WAIT that is answered here
    std::vector<std::string> keys;
    std::vector<std::uint32_t> single_waits;  // channels
    bool idle() const { return forwarded == carried_out && !waits_there; }
  };
  // Purpose of a channel: a client's, one key's of a client's WAIT, or a child's.
  struct Route {
    StoreClient client{-1};
    bool single_wait = false;
    StoreLink child{};
    std::uint32_t channel = 0;
  };
  struct Recall {
    std::uint32_t number = 0;  // the parent's
    std::set<int> asked;
  };

  std::optional<std::string> handle(StoreClient client, const StoreRequest& request, std::string& reply,
                                    std::vector<StoreDelivery>& deliveries, StoreTurn& turn) override;
  void forget(StoreClient client) override;
  void forget(StoreLink child) override;
  bool hear(StoreLink link, const TreeMessage& message) override;

  Local& local(StoreClient client);
  const Key* held(std::string_view key) const;
  bool answer_here(StoreClient client, const StoreRequest& request, std::string& reply);
  bool wait_here(StoreClient client, std::string_view body, std::string& reply);
  void end_wait(StoreClient client);
  void forward(StoreClient client, const StoreRequest& request);
  std::uint32_t open_channel(Route route);

  void hear_child(StoreLink child, const TreeMessage& message);
  void pass_up(StoreLink child, const TreeMessage& message);
  void close_from(StoreLink child, std::uint32_t channel);
  void want(StoreLink child, std::string_view name);
  void unwant(StoreLink child, std::string_view name);
  void note_recalled(StoreLink child, std::uint32_t number);

  void hear_parent(const TreeMessage& message);
  void take_reply(const TreeMessage& message);
  void take_refusal(const TreeMessage& message);
  void learn(const TreeMessage& message);
  void give_up(const TreeMessage& message);
  void recall(const TreeMessage& message);
  void wait_singly(std::string_view name, const std::vector<StoreClient>& clients);
  void count_down(const std::vector<StoreClient>& clients);

  Keys::iterator entry(std::string_view name);
  void keep(Keys::iterator place, Key::State state, std::string_view value);
  void drop(Keys::iterator place);
  void leave(Keys::iterator place);

  std::size_t room_;  // for values
  std::size_t held_bytes_ = 0;
  Keys keys_;
  std::list<const std::string*> ages_;  // keys that no client wants, oldest first
  std::vector<Local> locals_;
  std::unordered_map<std::uint32_t, Route> routes_;
  std::unordered_map<std::uint64_t, std::uint32_t> child_channels_;  // indexed by child and its channel
  std::uint32_t last_channel_ = 0;
  std::unordered_map<std::uint32_t, Recall> recalls_;  // indexed by the number that the children know
  std::uint32_t last_recall_ = 0;
  bool congested_ = false;
  std::vector<StoreClient> held_back_;
};

}  // namespace ddprun::store
