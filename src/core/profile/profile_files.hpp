// Profile of a job as files that viewers of flame graphs read.
#pragma once

#include <string>

#include "profile/rank_profile.hpp"

namespace ddprun::profile {

// Renders JSON in the format of speedscope (https://www.speedscope.app/file-format-schema.json): a profile of
// each thread of each rank, the main threads first, with frames that all of them share. Weights are
// microseconds.
std::string render_speedscope(const JobProfile& job, const std::string& name);

// Renders a line for each stack, "rank 5;train.py:10;step (train.py:44) 1200": what flamegraph.pl reads, with
// microseconds instead of counts.
std::string render_collapsed(const JobProfile& job);

}  // namespace ddprun::profile
