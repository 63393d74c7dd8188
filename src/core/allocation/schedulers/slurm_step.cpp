#include "allocation/schedulers/slurm_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "allocation/hostlist.hpp"
#include "allocation/number_list.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

[[noreturn]] void fail_torn(const std::string& what) {
  throw Error(what,
              "the variables come from different launches or were edited; start ddprun with srun from a "
              "fresh shell, or clear them with `unset ${!SLURM_@}`");
}

Sourced<std::string> require_text(const Variables& variables, const std::string& name) {
  auto value = variables.text(name);
  if (!value) fail_torn(fmt::format("SLURM_STEP_ID is set, but {} is not", name));
  return *value;
}

int require_number(const Variables& variables, const std::string& name) {
  const auto value = variables.count(name, 0);
  if (!value) fail_torn(fmt::format("SLURM_STEP_ID is set, but {} is not", name));
  return value->value;
}

void check_count(const Variables& variables, const std::string& name, std::int64_t counted,
                 const std::string& where) {
  const auto stated = variables.number(name, 0, k_most);
  if (stated && stated->value != counted)
    fail_torn(fmt::format("{}={}, but {} has {}", name, stated->value, where, counted));
}

// Throws if a host is listed twice: two entries would be two agents with the same place.
void check_unique(const std::vector<std::string>& hosts) {
  std::vector<std::string> sorted = hosts;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) fail_torn(fmt::format("SLURM_STEP_NODELIST names {} twice", *twice));
}

void check_layout(const Variables& variables, const StepLayout& layout) {
  check_count(variables, "SLURM_STEP_NUM_NODES", static_cast<std::int64_t>(layout.hosts.size()),
              fmt::format("SLURM_STEP_NODELIST={}", compress_hostlist(layout.hosts)));
  if (layout.tasks.size() != layout.hosts.size()) {
    fail_torn(fmt::format("SLURM_STEP_TASKS_PER_NODE counts {}, but SLURM_STEP_NODELIST={} has {}",
                          count_of(static_cast<std::int64_t>(layout.tasks.size()), "node"),
                          compress_hostlist(layout.hosts), layout.hosts.size()));
  }
  if (layout.node >= static_cast<int>(layout.hosts.size())) {
    fail_torn(fmt::format("SLURM_NODEID={}, but SLURM_STEP_NODELIST={} has {}", layout.node,
                          compress_hostlist(layout.hosts),
                          count_of(static_cast<std::int64_t>(layout.hosts.size()), "node")));
  }
  if (layout.rank >= layout.task_count)
    fail_torn(fmt::format("SLURM_PROCID={}, but the step has {}", layout.rank,
                          count_of(layout.task_count, "task")));
  const int here = layout.tasks[static_cast<std::size_t>(layout.node)];
  if (layout.local >= here) {
    fail_torn(fmt::format("SLURM_LOCALID={}, but the step has {} on node {} (SLURM_STEP_TASKS_PER_NODE)",
                          layout.local, count_of(here, "task"), layout.node));
  }
}

}  // namespace

StepLayout parse_step_layout(const Variables& variables) {
  StepLayout layout;
  const auto list = require_text(variables, "SLURM_STEP_NODELIST");
  layout.hosts = expand_hostlist(list.value, list.origin);
  if (layout.hosts.empty()) fail_torn("SLURM_STEP_NODELIST names no host");
  const auto tasks = require_text(variables, "SLURM_STEP_TASKS_PER_NODE");
  layout.tasks = expand_counts(tasks.value, tasks.origin);
  const auto sum = std::accumulate(layout.tasks.begin(), layout.tasks.end(), std::int64_t{0});
  if (sum > k_most) fail_torn("SLURM_STEP_TASKS_PER_NODE has more tasks than can be counted");
  check_count(variables, "SLURM_STEP_NUM_TASKS", sum, "SLURM_STEP_TASKS_PER_NODE=" + tasks.value);
  layout.task_count = static_cast<int>(sum);
  layout.node = require_number(variables, "SLURM_NODEID");
  layout.rank = require_number(variables, "SLURM_PROCID");
  layout.local = require_number(variables, "SLURM_LOCALID");
  check_unique(layout.hosts);
  check_layout(variables, layout);
  if (const auto ranks = variables.text("SLURM_GTIDS"))
    layout.local_ranks = expand_numbers(ranks->value, ranks->origin, k_most - 1);
  return layout;
}

bool ranks_agree(const StepLayout& layout) {
  if (layout.local_ranks.empty()) return true;
  const auto local = static_cast<std::size_t>(layout.local);
  const auto here = static_cast<std::size_t>(layout.tasks[static_cast<std::size_t>(layout.node)]);
  return layout.local_ranks.size() == here && layout.local_ranks[local] == layout.rank;
}

}  // namespace ddprun::allocation
