// Choice of the steps that an agent removes, and of the parts that it copies from its neighbour.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "checkpoint/manifest.hpp"

namespace ddprun::checkpoint {

using StepSizes = std::map<std::int64_t, std::uint64_t>;  // bytes that an agent has of each step

// Returns the steps that are needless: older than all in `complete` (Order::complete).
std::vector<std::int64_t> needless_steps(const StepSizes& steps, const std::vector<std::int64_t>& complete);
// Returns the steps to remove, oldest first, so that `bytes` become free. The newest complete step and what
// is newer are never among them. Empty: they would not free enough.
std::vector<std::int64_t> steps_to_remove(const StepSizes& steps, const std::vector<std::int64_t>& complete,
                                          std::uint64_t bytes);
// Returns the parts of the newest step that the neighbour offers and that lacks a replica here; none that is
// needless.
std::vector<Offer> parts_to_copy(const std::vector<Offer>& offers, const std::vector<Part>& here,
                                 const std::vector<std::int64_t>& complete);

}  // namespace ddprun::checkpoint
