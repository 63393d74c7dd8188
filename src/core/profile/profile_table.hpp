// Profile of a job as a table for a person.
//
// The place of a sample is the innermost call in the user's own files; where there is none, the innermost
// call. Places are functions, named with the line that took most. A rank's shares are of its main thread.
// A rank differs from the others at a place where its share is more than ten percentage points above the
// median of all ranks: half of the ranks may differ from the other half (the stages of a pipeline), and both
// are shown.
#pragma once

#include <string>

#include "profile/rank_profile.hpp"

namespace ddprun::profile {

// Renders the places where ranks differ, then all places by their mean share, then the ranks and hosts of
// which nothing is known.
std::string render_table(const JobProfile& job);

}  // namespace ddprun::profile
