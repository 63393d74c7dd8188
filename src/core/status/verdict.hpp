// Rank that a hanging job waits for, and places of all the others.
#pragma once

#include <string>

#include "base/duration.hpp"
#include "status/rank_groups.hpp"

namespace ddprun::status {

struct Verdict {
  int rank = 0;  // rank to blame, else the first
  int local_rank = 0;
  std::string host;
  int pid = 0;
  std::string gpu;
  std::string reason;      // follows "rank 1 on n2 hangs: "
  std::string places;      // a line for each group of ranks, then the stack of the one to blame
  std::string hint;        // while it is there
  std::string hint_after;  // once it has been ended
};

std::string describe(const Verdict& verdict);  // "rank 1 on n2 hangs: it is at train.py:8, ..."

// Returns the verdict. `why`: how it is known, "no rank has shown a sign of life for 20s". nullopt without
// any rank.
std::optional<Verdict> make_verdict(const JobStatus& job, const std::string& why);

// A rank has exited and others run on: one sentence that says where they are, and what to do. Nothing where
// all have ended, or none has shown where it is.
struct EarlyExitNotice {
  std::string what;
  std::string hint;
};
std::optional<EarlyExitNotice> describe_early_exit(const JobStatus& job, const std::string& why);

// Renders the output of --stacks.
std::string render_stacks(const JobStatus& job);
// Renders it without the heading.
std::string render_ranks(const JobStatus& job);

}  // namespace ddprun::status
