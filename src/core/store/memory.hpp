// Accounts of the store's memory: values, half requests, waits, watches, answers not yet read.
//
// A connection may hold as much as it leaves free, so that N greedy ones together leave the others one part
// in N + 1. Its stored values stay when it closes, and then count only for the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::store {

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

}  // namespace ddprun::store
