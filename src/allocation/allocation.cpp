#include "ddprun/allocation/allocation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

std::string launched_key(const Allocation& allocation) {
  std::string launcher = to_lower(allocation.launcher.value);
  std::replace(launcher.begin(), launcher.end(), ' ', '-');
  const std::string& instance = allocation.instance.value;
  const std::string suffix = instance.empty() ? "" : "/" + instance;
  if (!allocation.launch_id.value.empty()) {
    return fmt::format("{}/{}{}", launcher, allocation.launch_id.value, suffix);
  }
  const std::string& job = allocation.job_id.value;
  return fmt::format("{}/{}/{}{}", launcher, job.empty() ? "-" : job, allocation.task_count.value, suffix);
}

}  // namespace

std::string to_string(Scheduler scheduler) {
  switch (scheduler) {
    case Scheduler::none:
      return "none";
    case Scheduler::by_hand:
      return "by hand";
    case Scheduler::slurm:
      return "slurm";
    case Scheduler::pbs:
      return "pbs";
    case Scheduler::lsf:
      return "lsf";
    case Scheduler::flux:
      return "flux";
    case Scheduler::kubernetes:
      return "kubernetes";
  }
  return {};
}

std::string to_string(LaunchStyle style) {
  switch (style) {
    case LaunchStyle::alone:
      return "alone";
    case LaunchStyle::agent_per_node:
      return "one ddprun a node";
    case LaunchStyle::agent_per_task:
      return "one ddprun a task";
    case LaunchStyle::not_started:
      return "not started";
  }
  return {};
}

std::string launch_key(const Allocation& allocation) {
  if (allocation.numbered_by_launcher) return launched_key(allocation);
  const std::string& instance = allocation.instance.value;
  switch (allocation.scheduler.value) {
    case Scheduler::none:
      return "alone/" + instance;
    case Scheduler::by_hand:
      return "by-hand/" + (instance.empty() ? "none" : instance);  // torchrun's default --rdzv-id
    case Scheduler::slurm:
    case Scheduler::pbs:
    case Scheduler::lsf:
    case Scheduler::flux:
    case Scheduler::kubernetes:
      return fmt::format("{}/{}/{}/{}{}{}", to_string(allocation.scheduler.value),
                         allocation.job_id.value.empty() ? "-" : allocation.job_id.value,
                         allocation.restart_count.value,
                         allocation.step_id.value.empty() ? "-" : allocation.step_id.value,
                         instance.empty() ? "" : "/", instance);
  }
  return {};
}

}  // namespace ddprun
