// Ranks of a job by where they are, and the rank that a hanging job waits for.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "status/job_status.hpp"

namespace ddprun::status {

// Ranks of a job by where they are.
// Those at the same place are one group; the group that the others wait for comes first.

// Ranks that wait for each other in different process groups, which some of them use in another order.

// A rank in a pending collective waits for the members of its group that are in another one. Those that so
// wait for themselves, over any number of groups. Where torch does not say who is in a group, all are in the
// default one, and nothing follows from another.
std::set<int> find_crossed(const JobStatus& job);

// Blame for a hang, in descending order.
enum class Blame {
  raised,      // an exception is on its way, and something holds it up
  ending,      // script is over, and the process stays
  ended,       // process has ended
  prompt,      // at a prompt of Python's debugger
  elsewhere,   // in no collective, and in no other call that waits for ranks
  mismatched,  // in another call than most, or another collective of the same number in the same group
  behind,      // in an earlier one
  crossed,     // waits in one group for a rank that waits for it in another
  waiting,     // for others
};

struct RankGroup {
  Blame blame = Blame::waiting;
  std::vector<int> ranks;               // ascending
  std::string host;                     // host of the first
  std::string place;                    // status::describe_place(), or how it ended
  const WorkerStatus* first = nullptr;  // lives as long as the status
};

std::vector<RankGroup> group_ranks(const JobStatus& job);

// Returns "rank 7 on n2", "ranks 0-6,8-63".
std::string name_of(const RankGroup& group);

// Rank that a hanging job waits for, and places of all the others.

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
