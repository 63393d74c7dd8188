#include "store/memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::store {
namespace {

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024 * 1024));
}

}  // namespace

StoreMemory::Owner StoreMemory::add(StoreClient client, std::size_t bytes) {
  if (index(client) >= lives_.size()) lives_.resize(index(client) + 1);
  lives_[index(client)].held += bytes;
  used_ += bytes;
  return owner(client);
}

void StoreMemory::remove(Owner owner, std::size_t bytes) {
  used_ -= std::min(used_, bytes);
  if (owner.client >= lives_.size()) return;
  Life& life = lives_[owner.client];
  if (life.number == owner.life) life.held -= std::min(life.held, bytes);
}

void StoreMemory::forget(StoreClient client) {
  if (index(client) >= lives_.size()) return;
  Life& life = lives_[index(client)];
  ++life.number;
  life.held = 0;
}

std::string StoreMemory::complaint(StoreClient client, std::size_t more) const {
  return fmt::format(
      "it holds {} of the store's {} and needs {} more, but {} are free, and no connection may hold "
      "more than is left for the others",
      mebibytes(held(client)), mebibytes(limit_), mebibytes(more), mebibytes(left()));
}

}  // namespace ddprun::store
