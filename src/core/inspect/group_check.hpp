// Process groups whose ranks have not made the same calls.
// Who is missing in which collective, and whose operation, sizes or types differ.
//
// For each group the collectives of its ranks are laid side by side by their numbers. A rank is missing in
// the oldest collective that another one waits in if its newest one has a lower number; what a rank's record
// has dropped, since it keeps the newest ones alone, it has entered. Calls of one number that differ are an
// error also where they have ended. Sizes may differ in all_to_all, gather and scatter, and in all_gather and
// reduce_scatter of lists. Who is in a group is known from the records, else from who has used it.
#pragma once

#include <string>
#include <vector>

#include "inspect/rank_history.hpp"

namespace ddprun::inspect {

// Returns a line for each group that has a call, those at fault first: "default group (ranks 0-3): ranks
// 0,2-3 wait in all_reduce #6 (10 float), missing: rank 1 (last #5)".
std::vector<std::string> check_groups(const std::vector<RankHistory>& histories);

}  // namespace ddprun::inspect
