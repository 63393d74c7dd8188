#include "allocation/schedulers/job_end.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

// Key=value pairs; the first of each name counts.
std::map<std::string, std::string> read_fields(std::string_view shown) {
  std::map<std::string, std::string> fields;
  for (const std::string& word : split_words(shown)) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) fields.try_emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return fields;
}

bool has_ended_by_signal(const std::string& exit_code) {
  return exit_code.ends_with(":15") || exit_code.ends_with(":9");
}

constexpr std::string_view k_terminated_by = " terminated by ";
constexpr std::string_view k_rerun = "60";  // JOB_SUBSTATE_RERUN
constexpr std::int64_t k_tolerance = 2;
constexpr std::int64_t k_longest = std::int64_t{1} << 40;

// "    name = value", continued by lines that begin with a tab.
std::map<std::string, std::string> read_lines(std::string_view shown) {
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

// "01:00:00" in seconds
std::optional<std::int64_t> parse_span(const std::string& text) {
  std::int64_t seconds = 0;
  for (const std::string& part : split(text, ':')) {
    const auto number = parse_integer(part);
    if (!number || *number < 0 || seconds > k_longest) return std::nullopt;
    seconds = seconds * 60 + *number;
  }
  return text.empty() ? std::nullopt : std::optional(seconds);
}

}  // namespace

std::string describe_end_of_slurm_job(std::string_view shown, const Allocation& allocation) {
  auto fields = read_fields(shown);
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
  auto fields = read_lines(shown);
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

}  // namespace ddprun::allocation
