// The period of a training step, found in the repeating pattern of collectives.
#pragma once

#include <optional>

#include "slow/trace.hpp"

namespace ddprun::slow {

// Returns the microseconds of a step of the node's first rank; nullopt if nothing repeats at least three
// times. A step is the shortest distance at which the kinds of collectives recur (Collective::kind). Each
// kind weighs the same in that, so that the layers of a model, which recur within a step, are none; and three
// of four must recur. A kind of which there is one in 200 of the commonest is no part of the steps, as an
// evaluation now and then: a step of more layers than that is not recognised.
std::optional<double> find_step(const NodeTrace& node);

}  // namespace ddprun::slow
