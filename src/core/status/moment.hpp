// Record of where the ranks of a job were at one moment, in files: stacks, or torch's flight records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "status/job_status.hpp"
#include "status/json_values.hpp"
#include "status/rank_history.hpp"

namespace ddprun::status {

// Text added to a rank's file of stacks in the log folder, when a hang is found and for --stacks.

// Renders a heading with the time, the attempt and the process; where it is; and all that was collected,
// whole: the stacks of all its threads, and torch's flight record as it came. Empty for a rank that has
// ended. `time`: Unix time in milliseconds.
std::string render_stack_record(const std::string& host, const WorkerStatus& worker,
                                const status::Collected& collected, std::int64_t time, int attempt);

struct Moment {
  std::int64_t time = 0;    // Unix time in milliseconds
  std::int64_t number = 0;  // equal for the dumps of one moment on all hosts
  JobStatus job;            // with the ranks of one agent alone in a dump
  std::vector<status::RankHistory> histories{};
  friend bool operator==(const Moment&, const Moment&) = default;
};

inline constexpr std::size_t k_max_moment = std::size_t{4} << 20;  // bytes of a dump
inline constexpr std::size_t k_dumped_calls = 64;                  // collectives of each rank in it
inline constexpr std::int64_t k_kept_dumps = 4;                    // dumps of each agent

// Renders a dump as JSON, in one line; with fewer collectives where it would be above its limit. Parsing
// returns nullopt for any other text.
std::string render_moment(Moment moment);
std::optional<Moment> parse_moment(std::string_view text);

// Joins the dumps of the newest moment of the newest launch; hosts that have older ones alone are silent.
// nullopt without any.
std::optional<Moment> join_newest(std::vector<Moment> dumps);

// Returns the moment of torch's flight records, which show no stacks.
Moment make_moment(std::vector<status::RankHistory> records, std::int64_t time);

// Renders the output of --stacks for it: what the ranks wait for, the process groups, and each rank.
std::string describe_moment(const Moment& moment);

}  // namespace ddprun::status
