// Sends copies of --stage to other agents, which connect to a door (net/staging/sealed_door.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "net/staging/sealed_socket.hpp"
#include "net/staging/staged_item.hpp"

namespace ddprun::net {

inline constexpr int k_most_served = 8;  // includes hosts whose parent is lost

// Reads parts of the contents: from an offset, at most so much. Throws Error. For one thread.
using ReadStaged = std::function<std::string(std::uint64_t offset, std::size_t most)>;
using OpenStaged = std::function<ReadStaged(const StagedItem::View& view)>;

// Serves as long as the process lives. `listener` does not block. `items` outlives it.
void serve_staged(int listener, const SealedSocket::Proof& proof, std::vector<StagedItem>& items,
                  OpenStaged open);

}  // namespace ddprun::net
