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

std::optional<std::int64_t> parse_pbs_left(std::string_view shown, const AgeOfDate& age_of) {
  auto fields = read_attributes(shown);
  const auto age = age_of(fields["stime"]);
  const auto limit = parse_span(fields["Resource_List.walltime"]);
  if (!age || !limit) return std::nullopt;
  return *limit - *age;
}

// Parses "23:59 L" in hours and minutes.
std::optional<std::int64_t> parse_lsf_left(std::string_view shown) {
  const std::vector<std::string> words = split_words(last_line(shown));
  if (words.size() != 2 || (words[1] != "L" && words[1] != "X")) return std::nullopt;
  const auto minutes = parse_span(words[0]);
  return minutes && words[0].find(':') != std::string::npos ? std::optional(*minutes * 60) : std::nullopt;
}

}  // namespace

std::vector<std::string> time_question(Scheduler scheduler, const std::string& job) {
  if (job.empty()) return {};
  if (scheduler == Scheduler::slurm) return {"squeue", "-h", "-j", job, "-o", "%L"};
  if (scheduler == Scheduler::pbs) return {"qstat", "-f", job};
  if (scheduler == Scheduler::lsf) return {"bjobs", "-noheader", "-o", "time_left", job};
  if (scheduler == Scheduler::flux) return {"flux", "job", "timeleft", job};
  return {};
}

std::optional<std::int64_t> parse_time_left(Scheduler scheduler, std::string_view shown,
                                            const AgeOfDate& age_of) {
  std::optional<std::int64_t> left;
  if (scheduler == Scheduler::slurm) left = parse_span(last_line(shown));
  if (scheduler == Scheduler::pbs) left = parse_pbs_left(shown, age_of);
  if (scheduler == Scheduler::lsf) left = parse_lsf_left(shown);
  if (scheduler == Scheduler::flux) left = parse_integer(last_line(shown));
  return left && *left <= k_longest_limit ? left : std::nullopt;
}

std::optional<int> parse_pbs_restarts(std::string_view shown) {
  const auto runs = parse_integer(read_attributes(shown)["run_count"]);
  if (!runs || *runs < 1 || *runs > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*runs - 1);
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
