// Options for the store: who may use it (--store-access) and the relays before it.
#pragma once

#include <cstdint>

namespace ddprun::options {

// --store: whether the workers of each host reach the store through a relay on it.
struct StoreTree {
  enum class Form : std::uint8_t { automatic, flat, tree };
  Form form = Form::automatic;
  int fan_out = 32;  // relays that one serves, and the store itself; 2 .. k_max_fan_out
};

inline constexpr int k_max_fan_out = 1024;
// Number of workers from which relays are the default: with fewer one store is as fast (scripts/bench/scale).
inline constexpr int k_workers_for_tree = 512;

// Reports whether relays are used in a job that is expected to have so many workers.
inline bool wants_tree(const StoreTree& tree, int workers) {
  if (tree.form != StoreTree::Form::automatic) return tree.form == StoreTree::Form::tree;
  return workers >= k_workers_for_tree;
}

// --store-access: processes of the job's user, or all on its hosts.
enum class StoreAccess { user, host };

}  // namespace ddprun::options
