#include "allocation/allocation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

std::string as_key(const std::string& name) {
  std::string word = to_lower(name);
  std::replace(word.begin(), word.end(), ' ', '-');
  return word;
}

// Restarts are not in it: some places restart one node and leave the others as they are.
std::string placed_key(const Allocation& allocation) {
  const std::string& job = allocation.job_id.value;
  const std::string& instance = allocation.instance.value;
  return fmt::format("{}/{}{}{}", as_key(allocation.place.value), job.empty() ? "-" : job,
                     instance.empty() ? "" : "/", instance);
}

std::string launched_key(const Allocation& allocation) {
  const std::string launcher = as_key(allocation.launcher.value);
  const std::string& instance = allocation.instance.value;
  const std::string suffix = instance.empty() ? "" : "/" + instance;
  if (!allocation.launch_id.value.empty()) {
    return fmt::format("{}/{}{}", launcher, allocation.launch_id.value, suffix);
  }
  const std::string& job = allocation.job_id.value;
  return fmt::format("{}/{}/{}{}", launcher, job.empty() ? "-" : job, allocation.task_count.value, suffix);
}

}  // namespace

Sourced<std::optional<NodeIndex>> node_rank_of(const Allocation& allocation) {
  if (!allocation.node_rank) return allocation.node_index;
  return {allocation.node_rank->value, allocation.node_rank->origin};
}

const Host* find_own_host(const Allocation& allocation) {
  const auto& index = allocation.node_index.value;
  const auto& hosts = allocation.hosts.value;
  return index && static_cast<std::size_t>(index->value) < hosts.size()
             ? &hosts[static_cast<std::size_t>(index->value)]
             : nullptr;
}

std::string to_string(facts::Scheduler scheduler) {
  const facts::SchedulerTraits* const traits = facts::find_traits(scheduler);
  if (traits != nullptr) return std::string(traits->name);
  return scheduler == facts::Scheduler::manual ? "manual" : "none";
}

std::string to_string(LaunchStyle style) {
  constexpr const char* k_names[] = {"alone", "one ddprun per node", "one ddprun per task", "not started"};
  return k_names[static_cast<std::size_t>(style)];
}

std::string launch_key(const Allocation& allocation) {
  if (allocation.numbered_by_launcher) return launched_key(allocation);
  const std::string& instance = allocation.instance.value;
  if (allocation.scheduler.value == facts::Scheduler::none) return "alone/" + instance;
  if (allocation.place.known()) return placed_key(allocation);
  if (allocation.scheduler.value == facts::Scheduler::manual)
    return "manual/" + (instance.empty() ? "none" : instance);  // torchrun's default --rdzv-id
  return fmt::format("{}/{}/{}/{}{}{}", to_string(allocation.scheduler.value),
                     allocation.job_id.value.empty() ? "-" : allocation.job_id.value,
                     allocation.restart_count.value,
                     allocation.step_id.value.empty() ? "-" : allocation.step_id.value,
                     instance.empty() ? "" : "/", instance);
}

std::string job_key(const Allocation& allocation) {
  const std::string &job = allocation.job_id.value, &step = allocation.step_id.value;
  if (job.empty()) return launch_key(allocation);
  return fmt::format("{}/{}/{}", to_string(allocation.scheduler.value), job, step.empty() ? "-" : step);
}

}  // namespace ddprun::allocation
