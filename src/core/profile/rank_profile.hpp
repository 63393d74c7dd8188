// Profile of the ranks of a job: trees of Python calls, each with the time in which it was the innermost one.
// What the ranks answer, a table of it for a person, and files for viewers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "status/rank_view.hpp"

namespace ddprun::profile {

struct Call {
  int caller = -1;  // index in ThreadProfile::calls, below its own; -1: the outermost
  int frame = 0;    // index in RankProfile::frames
  std::int64_t microseconds = 0;
  friend bool operator==(const Call&, const Call&) = default;
};

struct ThreadProfile {
  std::string name;
  bool main = false;
  std::vector<Call> calls;
  friend bool operator==(const ThreadProfile&, const ThreadProfile&) = default;
};

struct RankProfile {
  int rank = 0;
  std::string host;
  int pid = 0;
  std::string unseen{};  // reason why there is no profile
  std::vector<status::Frame> frames{};
  std::vector<ThreadProfile> threads{};
  friend bool operator==(const RankProfile&, const RankProfile&) = default;
};

struct JobProfile {
  std::vector<RankProfile> ranks;     // ascending
  std::vector<std::string> silent{};  // hosts without an answer
};

inline constexpr int k_rate = 100;  // samples a second
// Bytes of the answer of ddprun's module in a rank (workers/inspection/ddprun_answer.py).
inline constexpr int k_least_answer = 4096, k_most_answer = 128 << 10;

// Returns the limit of a rank's answer: that of all ranks of a job together stays below 48 MiB.
int answer_limit(int ranks);

// Renders a line about one rank, with the answer of its module as it came, or the reason why there is none.
std::string render_rank(int rank, const std::string& host, int pid, const std::string& unseen,
                        std::string_view answer);
// Renders the line that names the hosts that are asked.
std::string render_asked(const std::vector<std::string>& hosts);
// Renders the line that a host sends last.
std::string render_answered(const std::string& host);

// Parses such lines, in any order; what is none of them is left out. A rank whose answer is no profile is
// `unseen`.
JobProfile parse_job(std::string_view lines);

// Renders the places where ranks differ, then all places by their mean share, then the ranks and hosts of
// which nothing is known.
//
// The place of a sample is the innermost call in the user's own files; where there is none, the innermost
// call. Places are functions, named with the line that took most. A rank's shares are of its main thread.
// A rank differs from the others at a place where its share is more than ten percentage points above the
// median of all ranks: half of the ranks may differ from the other half (the stages of a pipeline), and both
// are shown.
std::string render_table(const JobProfile& job);

// Renders JSON in the format of speedscope (https://www.speedscope.app/file-format-schema.json): a profile of
// each thread of each rank, the main threads first, with frames that all of them share. Weights are
// microseconds.
std::string render_speedscope(const JobProfile& job, const std::string& name);

// Renders a line for each stack, "rank 5;train.py:10;step (train.py:44) 1200": what flamegraph.pl reads, with
// microseconds instead of counts.
std::string render_collapsed(const JobProfile& job);

}  // namespace ddprun::profile
