// Messages about checkpoints in the nodes' memory, beside what Join, Stopped and Start have of them.
#pragma once

#include "checkpoint/held.hpp"

namespace ddprun::rendezvous {

// Sent whenever it changes.
struct CheckpointsHeld {
  checkpoint::Held held;
  friend bool operator==(const CheckpointsHeld&, const CheckpointsHeld&) = default;
};

// Sent whenever it changes.
struct CheckpointOrder {
  checkpoint::Order order;
  friend bool operator==(const CheckpointOrder&, const CheckpointOrder&) = default;
};

}  // namespace ddprun::rendezvous
