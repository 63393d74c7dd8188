#include "allocation/schedulers/slurm_tasks.hpp"

#include <algorithm>
#include <numeric>

#include "allocation/asked_tasks.hpp"
#include "allocation/hostlist.hpp"
#include "allocation/number_list.hpp"
#include "allocation/schedulers/shown_fields.hpp"
#include "allocation/variables.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

// Returns the CPUs of the job on each host, as sbatch and srun set them.
std::vector<int> granted_cpus_of_hosts(const facts::Snapshot& snapshot) {
  const auto text = Variables(snapshot.environment).text("SLURM_JOB_CPUS_PER_NODE");
  return text ? expand_counts(text->value, text->origin) : std::vector<int>();
}

}  // namespace

bool lacks_asked_tasks(const Allocation& allocation, const facts::Snapshot& snapshot) {
  if (allocation.scheduler.value != facts::Scheduler::slurm || allocation.launcher.value != "srun" ||
      allocation.style.value != LaunchStyle::agent_per_node || allocation.task_rank.value != 0 ||
      asks_for_several(allocation))
    return false;
  return std::ranges::any_of(granted_cpus_of_hosts(snapshot), [](int cpus) { return cpus > 1; });
}

std::optional<Sourced<std::vector<Host>>> parse_shown_tasks(const std::string& shown,
                                                            const Allocation& allocation,
                                                            const facts::Snapshot& snapshot) {
  const auto fields = read_slurm_job(shown, allocation.job_id.value);
  const auto number = [&](const char* name) {
    const auto field = fields.find(name);
    return field == fields.end()
               ? 0
               : parse_integer(field->second.substr(0, field->second.find(':'))).value_or(0);
  };
  const auto list = Variables(snapshot.environment).text("SLURM_JOB_NODELIST");
  const std::int64_t tasks = number("NumTasks");
  const std::int64_t each = number("NtasksPerN:B:S:C");
  std::vector<int> counts = granted_cpus_of_hosts(snapshot);
  if (!list || count_hostlist(list->value, list->origin) != counts.size() || tasks <= std::ssize(counts))
    return std::nullopt;
  const std::int64_t cpus = std::max<std::int64_t>(1, number("CPUs/Task"));
  const bool even = each > 0 && each * std::ssize(counts) == tasks;
  for (int& count : counts) count = static_cast<int>(even ? each : count / cpus);
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != tasks) return std::nullopt;
  std::vector<Host> hosts;
  for (std::string& host : expand_hostlist(list->value, list->origin))
    hosts.push_back({std::move(host), counts[hosts.size()]});
  return sourced(std::move(hosts), "scontrol show job");
}

}  // namespace ddprun::allocation
