#include "allocation/schedulers/job_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iomanip>
#include <limits>
#include <sstream>

#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

bool has_ended_by_signal(const std::string& exit_code) {
  return exit_code.ends_with(":15") || exit_code.ends_with(":9");
}

constexpr std::string_view k_terminated_by = " terminated by ";
constexpr std::string_view k_rerun = "60";  // JOB_SUBSTATE_RERUN
constexpr std::int64_t k_tolerance = 2;

}  // namespace

std::string describe_end_of_slurm_job(std::string_view shown, const Allocation& allocation) {
  auto fields = read_slurm_job(shown, allocation.job_id.value);
  const std::string& state = fields["JobState"];
  const std::string& preempted = fields["PreemptTime"];
  const std::string job = "job " + allocation.job_id.value;
  if (fields["Reason"] == "TimeLimit" || state == "TIMEOUT")
    return fmt::format("{} reached its time limit of {}", job, printable(fields["TimeLimit"], 40));
  const bool requeued = parse_integer(fields["Restarts"]).value_or(0) > allocation.restart_count.value;
  if (!preempted.empty() && preempted != "None")
    return fmt::format("{} was preempted{}", job, requeued ? " and is requeued" : "");
  if (requeued) return job + " is requeued";
  if (state == "CANCELLED" || (state == "COMPLETING" && has_ended_by_signal(fields["ExitCode"])))
    return job + " was cancelled";
  return state == "COMPLETING" ? job + " was cancelled, or its script has ended" : std::string();
}

std::string describe_end_of_pbs_job(std::string_view shown, const Allocation& allocation,
                                    const AgeOfDate& age_of) {
  auto fields = read_attributes(shown);
  const std::string job = "job " + allocation.job_id.value;
  const std::string& comment = fields["comment"];
  if (const std::size_t at = comment.find(k_terminated_by); at != std::string::npos)
    return fmt::format("{} was deleted by {}", job,
                       printable(comment.substr(at + k_terminated_by.size()), 80));
  if (fields["substate"] == k_rerun) return job + " is requeued";
  const auto age = age_of(fields["stime"]);
  const auto limit = parse_span(fields["Resource_List.walltime"]);
  if (!age || !limit || *age + k_tolerance < *limit) return {};
  return fmt::format("{} reached its walltime of {}", job, fields["Resource_List.walltime"]);
}

bool names_time_limit(std::string_view description) {
  return description.find(" reached its time limit of ") != std::string_view::npos ||
         description.find(" reached its walltime of ") != std::string_view::npos;
}

namespace {

using facts::Scheduler;

constexpr Milliseconds k_kill_wait{30000};
constexpr Milliseconds k_kill_delay{10000};
constexpr Milliseconds k_flux_kill_timeout{5000};
constexpr std::int64_t k_longest_limit = std::int64_t{10} * 365 * 86400;  // "unlimited" is longer
constexpr Milliseconds k_grace_margin{5000};                              // for what follows the workers' end
constexpr Milliseconds k_longest_grace{std::chrono::hours(24 * 7)};
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

// Parses "23:59 L" in hours and minutes.
std::optional<std::int64_t> parse_lsf_left(std::string_view shown) {
  const std::vector<std::string> words = split_words(last_line(shown));
  if (words.size() != 2 || (words[1] != "L" && words[1] != "X")) return std::nullopt;
  const auto minutes = parse_span(words[0]);
  return minutes && words[0].find(':') != std::string::npos ? std::optional(*minutes * 60) : std::nullopt;
}

// "2026-11-26T23:21:32" in seconds, of whatever time zone.
std::optional<std::int64_t> parse_moment(const std::string& text) {
  std::istringstream stream(text);
  std::tm parts{};
  stream >> std::get_time(&parts, "%Y-%m-%dT%H:%M:%S");
  if (stream.fail()) return std::nullopt;
  using namespace std::chrono;
  const year_month_day date{year{parts.tm_year + 1900}, month{static_cast<unsigned>(parts.tm_mon + 1)},
                            day{static_cast<unsigned>(parts.tm_mday)}};
  if (!date.ok()) return std::nullopt;
  const auto seconds_of_day = hours{parts.tm_hour} + minutes{parts.tm_min} + seconds{parts.tm_sec};
  return seconds(sys_days{date}.time_since_epoch() + seconds_of_day).count();
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

std::vector<std::string> grace_question(Scheduler scheduler, const std::string& job) {
  if (scheduler != Scheduler::slurm || job.empty()) return {};
  return {"scontrol", "show", "job", job};
}

// EndTime is that of the preemption and the GraceTime of the partition or QOS.
std::optional<Milliseconds> parse_stop_grace(std::string_view job, std::string_view config) {
  auto fields = read_pairs(job);
  const std::string& state = fields["JobState"];
  std::optional<Milliseconds> whole;
  if (state == "RUNNING") {
    const auto preempted = parse_moment(fields["PreemptTime"]), end = parse_moment(fields["EndTime"]);
    if (preempted && end) whole = std::chrono::seconds(*end - *preempted);
  } else if (state == "COMPLETING") {
    whole = end_grace(Scheduler::slurm, config).value;
  }
  const bool is_known = whole && *whole > k_grace_margin && *whole <= k_longest_grace;
  return is_known ? std::optional(*whole - k_grace_margin) : std::nullopt;
}

namespace {

constexpr std::int64_t k_longest = std::int64_t{1} << 40;
constexpr std::int64_t k_day = 86400;

}  // namespace

std::map<std::string, std::string> read_pairs(std::string_view shown) {
  std::map<std::string, std::string> fields;
  for (const std::string& word : split_words(shown)) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) fields.try_emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return fields;
}

std::map<std::string, std::string> read_slurm_job(std::string_view shown, const std::string& id) {
  const std::vector<std::string> words = split_words(shown);
  const auto begins = [](const std::string& word) { return word.starts_with("JobId="); };
  const auto first = std::ranges::find(words, "JobId=" + id);
  if (first == words.end()) return {};
  return read_pairs(join({first, std::find_if(first + 1, words.end(), begins)}, " "));
}

std::map<std::string, std::string> read_attributes(std::string_view shown) {
  std::map<std::string, std::string> fields;
  std::string* value = nullptr;
  for (const std::string& line : split(shown, '\n')) {
    const std::size_t middle = line.find(" = ");
    if (line.starts_with('\t') && value != nullptr) {
      value->append(line, 1);
    } else if (middle != std::string::npos) {
      value = &fields[std::string(trim(line.substr(0, middle)))];
      *value = line.substr(middle + 3);
    }
  }
  return fields;
}

std::optional<std::int64_t> parse_span(std::string_view text) {
  std::int64_t days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos && dash > 0) {
    const auto number = parse_integer(text.substr(0, dash));
    if (!number || *number < 0 || *number > k_longest / k_day) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  std::int64_t seconds = 0;
  for (const std::string& part : split(text, ':')) {
    const auto number = parse_integer(part);
    if (!number || *number < 0 || *number > k_longest || seconds > k_longest) return std::nullopt;
    seconds = seconds * 60 + *number;
  }
  return days * k_day + seconds;
}

}  // namespace ddprun::allocation
