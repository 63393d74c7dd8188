#include "allocation/schedulers/job_time.hpp"

#include <limits>

#include "allocation/schedulers/shown_fields.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

using facts::Scheduler;

constexpr Milliseconds k_kill_wait{30000};
constexpr Milliseconds k_kill_delay{10000};
constexpr Milliseconds k_flux_kill_timeout{5000};
constexpr std::int64_t k_longest_limit = std::int64_t{10} * 365 * 86400;  // "unlimited" is longer
constexpr std::string_view k_kill_wait_name = "KillWait";

std::string last_line(std::string_view shown) {
  std::string last;
  for (const std::string& line : split(shown, '\n')) {
    if (!trim(line).empty()) last = std::string(trim(line));
  }
  return last;
}

// Each line has the job's number, its name and what is left of its limit.
std::optional<std::int64_t> parse_slurm_left(std::string_view shown, const std::string& job) {
  std::optional<std::int64_t> least;
  for (const std::string& line : split(shown, '\n')) {
    const std::vector<std::string> words = split_words(line);
    if (words.size() != 3 || (words[0] != job && !words[1].starts_with(job + "+"))) continue;
    const auto left = parse_span(words[2]);
    if (left && (!least || *left < *least)) least = left;
  }
  return least;
}

// One that starts at `first`.
std::optional<int> parse_count(const std::string& text, int first) {
  const auto number = parse_integer(text);
  if (!number || *number < first || *number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*number) - first;
}

std::optional<std::int64_t> parse_pbs_left(std::string_view shown, const AgeOfDate& age_of) {
  auto fields = read_attributes(shown);
  const auto age = age_of(fields["stime"]);
  const auto limit = parse_span(fields["Resource_List.walltime"]);
  if (!age || !limit) return std::nullopt;
  return *limit - *age;
}

// "23:59 L" in hours and minutes.
std::optional<std::int64_t> parse_lsf_left(std::string_view shown) {
  const std::vector<std::string> words = split_words(last_line(shown));
  if (words.size() != 2 || (words[1] != "L" && words[1] != "X")) return std::nullopt;
  const auto minutes = parse_span(words[0]);
  return minutes && words[0].find(':') != std::string::npos ? std::optional(*minutes * 60) : std::nullopt;
}

}  // namespace

std::vector<std::string> time_question(const Allocation& allocation) {
  const Scheduler scheduler = allocation.scheduler.value;
  const std::string& job = allocation.job_id.value;
  if (job.empty()) return {};
  if (scheduler == Scheduler::slurm) return {"squeue", "-h", "-j", job, "-o", "%A %i %L"};
  if (scheduler == Scheduler::pbs) return {"qstat", "-f", job};
  if (scheduler == Scheduler::lsf) return {"bjobs", "-noheader", "-o", "time_left", job};
  if (scheduler == Scheduler::flux) return {"flux", "job", "timeleft", job};
  return {};
}

std::optional<std::int64_t> parse_time_left(const Allocation& allocation, std::string_view shown,
                                            const AgeOfDate& age_of) {
  const Scheduler scheduler = allocation.scheduler.value;
  std::optional<std::int64_t> left;
  if (scheduler == Scheduler::slurm) left = parse_slurm_left(shown, allocation.job_id.value);
  if (scheduler == Scheduler::pbs) left = parse_pbs_left(shown, age_of);
  if (scheduler == Scheduler::lsf) left = parse_lsf_left(shown);
  if (scheduler == Scheduler::flux) left = parse_integer(last_line(shown));
  return left && *left <= k_longest_limit ? left : std::nullopt;
}

std::vector<std::string> job_question(const Allocation& allocation) {
  const std::string& job = allocation.job_id.value;
  if (job.empty()) return {};
  if (allocation.scheduler.value == Scheduler::slurm) return {"scontrol", "show", "job", job};
  if (allocation.scheduler.value == Scheduler::pbs) return {"qstat", "-f", job};
  return {};
}

std::optional<ShownJob> parse_shown_job(const Allocation& allocation, std::string_view shown) {
  if (allocation.scheduler.value != Scheduler::slurm)
    return ShownJob{allocation.job_id.value, parse_count(read_attributes(shown)["run_count"], 1)};
  auto fields = read_slurm_job(shown, allocation.job_id.value);
  if (fields.empty()) return std::nullopt;
  ShownJob job{fields["JobId"], parse_count(fields["Restarts"], 0)};
  if (!fields["HetJobId"].empty()) job.name = fields["HetJobId"];
  if (!fields["ArrayJobId"].empty()) job.name = fields["ArrayJobId"] + "_" + fields["ArrayTaskId"];
  return job;
}

Sourced<Milliseconds> end_grace(Scheduler scheduler, std::string_view slurm_config) {
  if (scheduler == Scheduler::pbs) return sourced(k_kill_delay, "PBS' default kill_delay");
  if (scheduler == Scheduler::flux) return sourced(k_flux_kill_timeout, "Flux' default kill-timeout");
  if (scheduler != Scheduler::slurm) return {};
  for (const std::string& line : split(slurm_config, '\n')) {
    const std::vector<std::string> words = split_words(line);
    if (words.size() < 3 || words[0] != k_kill_wait_name || words[1] != "=") continue;
    const auto seconds = parse_integer(words[2]);
    if (seconds && *seconds >= 0 && *seconds <= k_longest_limit)
      return sourced(Milliseconds{*seconds * 1000}, "KillWait, scontrol show config");
  }
  return sourced(k_kill_wait, "Slurm's default KillWait");
}

}  // namespace ddprun::allocation
