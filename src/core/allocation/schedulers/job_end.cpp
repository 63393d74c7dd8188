#include "allocation/schedulers/job_end.hpp"

#include <fmt/format.h>

#include "allocation/schedulers/shown_fields.hpp"
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

}  // namespace ddprun::allocation
