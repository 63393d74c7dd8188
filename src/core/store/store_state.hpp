// The keys, queues and barriers of a c10d store, and who waits for what. Knows nothing of bytes on a wire.
//
// A client has at most one wait outstanding: on keys (all of them must have appeared) or on a barrier. A key
// that is absent when the wait begins is counted once, when it next appears: by being set, or by a push to
// the queue of that name, which counts for one client only, the one that has waited longest. A newer wait of
// the same client replaces the older one. A caller that changes the state learns through Effects which
// clients are owed what, and must deliver it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::store {

// Accounts of the store's memory: values, half requests, waits, watches, answers not yet read.
//
// A connection may hold as much as it leaves free, so that N greedy ones together leave the others one part
// in N + 1. Its stored values stay when it closes, and then count only for the whole.

// A connection; numbers are small and used again after forget().
using StoreClient = Id<struct StoreClientTag>;

class StoreMemory {
 public:
  // Owner of a piece of memory, also after its connection is gone and its number is another's.
  struct Owner {
    std::uint32_t client = 0;
    std::uint32_t life = 0;
  };

  explicit StoreMemory(std::size_t limit) : limit_(limit) {}

  bool has_room(StoreClient client, std::size_t more) const {
    return more <= limit_ && held(client) + 2 * more <= left();
  }
  Owner add(StoreClient client, std::size_t bytes);
  void remove(Owner owner, std::size_t bytes);
  void remove(StoreClient client, std::size_t bytes) {
    if (bytes > 0) remove(owner(client), bytes);
  }
  // Forgets a connection that has gone; what it holds itself was removed before.
  void forget(StoreClient client);

  std::size_t used() const { return used_; }
  std::size_t held(StoreClient client) const {
    return index(client) < lives_.size() ? lives_[index(client)].held : 0;
  }
  // Returns the reason why there is no room.
  std::string complaint(StoreClient client, std::size_t more) const;

 private:
  struct Life {
    std::uint32_t number = 0;
    std::size_t held = 0;
  };
  static std::size_t index(StoreClient client) { return static_cast<std::size_t>(client.value); }
  std::size_t left() const { return limit_ > used_ ? limit_ - used_ : 0; }
  Owner owner(StoreClient client) const {
    return {static_cast<std::uint32_t>(client.value), lives_[index(client)].number};
  }

  std::size_t limit_;
  std::size_t used_ = 0;
  std::vector<Life> lives_;  // indexed by client
};

// A connection to another store of the same tree; 0 is that to the parent.
using StoreLink = Id<struct StoreLinkTag>;

// Change of a key that a client watches.
enum class KeyChange { updated = 0, created = 1, deleted = 2 };

struct WatchNotice {
  std::vector<StoreClient> clients;  // watchers
  KeyChange change;
  std::string key;
  std::string old_value;
  std::string new_value;
};

// A key has come that relays wait for.
struct WantedKey {
  std::string key;
  std::vector<StoreLink> links;
};

// Knowledge of a key at relays: none, that it is there, or its value too.
enum class Shown : std::uint8_t { nothing, presence, value };

// Consequences of a request for clients, the requester included. Used again from request to request, so that
// an ordinary one allocates nothing.
struct StoreEffects {
  StoreClient by{0};                 // the requester, whose memory it becomes
  std::vector<StoreClient> woken;    // each one's wait is over
  std::vector<WatchNotice> notices;  // in the order of the changes
  std::vector<WantedKey> wanted;
};

class StoreState {
 public:
  // Makes a store whose values never grow past max_value bytes. Everything that is kept is charged to
  // `memory`; whether there is room for it is asked before.
  StoreState(std::size_t max_value, StoreMemory& memory) : max_value_(max_value), memory_(memory) {}

  // Returns nullopt when the key is absent. The view lives until the next change.
  std::optional<std::string_view> get(std::string_view key) const;
  void set(std::string_view key, std::string_view value, StoreEffects& effects);
  // Adds. Returns the sum; nullopt when the value does not begin with a decimal number that fits, and then
  // nothing changes.
  std::optional<std::int64_t> add(std::string_view key, std::int64_t delta, StoreEffects& effects);
  // Appends; false when the value would become too long, and then nothing changes.
  bool append(std::string_view key, std::string_view tail, StoreEffects& effects);
  // Returns the client's answer: `desired` when it was stored; for an absent key `expected` (c10d's
  // documented answer); else the present value. Wakes clients that wait for the key to appear, and at a
  // barrier of that name whatever came of it. The view lives until the next change.
  std::string_view compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                               StoreEffects& effects);
  bool erase(std::string_view key, StoreEffects& effects);
  std::size_t size() const { return values_.size(); }
  std::size_t key_bytes() const { return key_bytes_; }  // sum over all keys
  template <class Visitor>
  void for_each_key(Visitor visit) const {
    for (const auto& entry : values_) visit(std::string_view(entry.first));
  }

  // Pushes a value into a queue, which is apart from the key of the same name and does not count in size().
  void push(std::string_view queue, std::string_view value, StoreEffects& effects);
  std::size_t queue_length(std::string_view queue) const;
  std::size_t next_in_queue(std::string_view queue) const;  // bytes of what pop() returns
  // Returns nullopt when the queue is empty.
  std::optional<std::string> pop(std::string_view queue);

  // Reports whether the key exists or the queue of that name holds something.
  bool present(std::string_view key) const;

  // Adds one more key to the client's wait, if it is absent. Once all are named, the client is woken later,
  // or waiting() says that there is nothing to wait for.
  void wait_for(StoreClient client, std::string_view key);
  // Counts the client in. When `world` have come, all that wait at it, the caller too, are woken; the counter
  // is kept under the key as decimal text and never reset. set(), add(), append() and compare_set() of the
  // key wake them too, as in torch 2.13. Nothing happens and false is returned when it is no number.
  bool enter_barrier(StoreClient client, std::string_view key, std::int64_t world, StoreEffects& effects);
  void cancel_wait(StoreClient client);
  bool waiting(StoreClient client) const;

  // ---- relays

  // Notes that the relay is told by `wanted` when the key comes; once, however often it asks. Values in a
  // queue of that name do not count.
  void want(StoreLink link, std::string_view key);
  void unwant(StoreLink link, std::string_view key);
  bool wanted(std::string_view key) const;
  void drop_wants(std::string_view key);
  void forget(StoreLink link);
  // Notes that relays are about to hold the key, which is there, and returns what of it: the value if it is
  // not longer than max_value and was set once and not changed since.
  Shown show(std::string_view key, std::size_t max_value);
  Shown shown(std::string_view key) const;
  // Returns the message written for a shown key, so that the next relay it is shown to shares it.
  std::weak_ptr<const std::string>& written(std::string_view key);
  // Notes that they hold nothing of it any more, and its value is not shown again.
  void hide(std::string_view key);

  // Watches a key; false when the client watches as many keys as it may. Twice the same key is once.
  bool watch(StoreClient client, std::string_view key);
  // Removes the client from every list.
  void forget(StoreClient client);

  // Return, for tests, the entries in all wait and watch lists, and the charge of the values and queues
  // alone.
  std::size_t listed() const;
  std::size_t bytes() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  void put(std::string_view key, std::string_view value, StoreEffects& effects);
  void release_barrier(std::string_view key, StoreEffects& effects);

  template <class Value>
  using Map = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;
  struct Waiters {
    std::vector<StoreClient> key;  // oldest first
    std::vector<StoreClient> barrier;
    std::vector<StoreLink> links;
    bool empty() const { return key.empty() && barrier.empty() && links.empty(); }
  };
  struct Wait {
    std::vector<std::string> keys;  // keys that were absent when the wait began
    std::size_t missing = 0;        // number of them still to come
    std::size_t memory = 0;
  };
  struct Watches {
    std::size_t count = 0;
    std::size_t memory = 0;
  };
  struct Kept {
    std::string bytes;
    StoreMemory::Owner owner{};
    bool changed = false;  // changed since it was set first, or a counter
    Shown shown = Shown::nothing;
    std::weak_ptr<const std::string> written{};
  };

  template <class Value>
  static Value& entry(Map<Value>& map, std::string_view key);
  Wait& wait_of(StoreClient client);
  void store(std::string_view key, std::string_view value, StoreEffects& effects);
  void arrived(std::string_view key, StoreEffects& effects);
  void count_down(StoreClient client, StoreEffects& effects);
  void remember(StoreClient client, Wait& wait, std::string_view key);
  void charge(std::string_view key, Kept& value, std::size_t before, StoreClient by);
  void notify(std::string_view key, KeyChange change, std::string_view old_value, std::string_view new_value,
              StoreEffects& effects) const;

  std::size_t max_value_;
  StoreMemory& memory_;
  Map<Kept> values_;
  std::size_t key_bytes_ = 0;    // sum over all values
  Map<std::list<Kept>> queues_;  // never an empty one
  Map<Waiters> waiters_;         // never an empty one
  Map<std::vector<StoreClient>> watchers_;
  std::vector<Wait> waits_;       // indexed by client
  std::vector<Watches> watched_;  // indexed by client
};

}  // namespace ddprun::store
