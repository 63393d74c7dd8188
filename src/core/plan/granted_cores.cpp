#include "plan/granted_cores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "placement/common_numbers.hpp"
#include "plan/worker_count.hpp"

namespace ddprun::plan {

namespace {

using CoreList = std::vector<std::vector<int>>;

// Returns the cores of the mask; without a topology every CPU is one.
CoreList cores_of_mask(const facts::HostFacts& host) {
  CoreList cores;
  if (!host.topology) {
    for (const int cpu : host.allowed_cpus) cores.push_back({cpu});
    return cores;
  }
  for (const facts::Core& core : host.topology->cores) {
    std::vector<int> cpus;
    std::set_intersection(core.cpus.begin(), core.cpus.end(), host.allowed_cpus.begin(),
                          host.allowed_cpus.end(), std::back_inserter(cpus));
    if (!cpus.empty()) cores.push_back(std::move(cpus));
  }
  return cores;
}

std::vector<std::vector<int>> near_cpus_of_workers(const NodeProposal& node, const facts::HostFacts& host) {
  std::vector<std::vector<int>> near;
  for (const OfferedWorker& worker : node.offered) {
    for (const int gpu : worker.gpus) {
      const facts::Gpu& facts = host.gpus.at(static_cast<std::size_t>(gpu));
      if (!facts.local_cpus.empty()) near.push_back(facts.local_cpus);
    }
  }
  return near;
}

// Returns the cores in an order that takes one near each of the lists in turn, then the others as they come.
CoreList nearest_first(const CoreList& cores, const std::vector<std::vector<int>>& near) {
  CoreList ordered;
  std::set<std::size_t> taken;
  for (bool found = true; found;) {
    found = false;
    for (const std::vector<int>& cpus : near) {
      for (std::size_t i = 0; i < cores.size(); ++i) {
        if (taken.count(i) != 0 || !placement::overlap(cores[i], cpus)) continue;
        taken.insert(i);
        ordered.push_back(cores[i]);
        found = true;
        break;
      }
    }
  }
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (taken.count(i) == 0) ordered.push_back(cores[i]);
  }
  return ordered;
}

}  // namespace

// Finds the granted cores. An ncpus of 1 is PBS' default if the user asked for none, as on nodes that are
// given as a whole: it is no reason to crowd the workers of several GPUs.
GrantedCores find_granted_cores(const NodeProposal& node, const facts::Snapshot& snapshot) {
  const allocation::Allocation& allocation = node.allocation;
  const Sourced<int>& granted = allocation.cpus_on_node;
  const bool alone_here = allocation.style.value != allocation::LaunchStyle::agent_per_task ||
                          tasks_on_this_host(allocation) == 1;
  const bool meant = granted.value >= node.workers.value && (granted.value > 1 || node.gpus.empty());
  if (allocation.scheduler.value != facts::Scheduler::pbs || granted.value == 0 || !alone_here || !meant)
    return {};
  if (node.options.bind.mode == options::BindMode::none) return {};
  CoreList cores = cores_of_mask(snapshot.host);
  if (cores.size() <= static_cast<std::size_t>(granted.value)) return {};
  return {granted.value, granted.origin, nearest_first(cores, near_cpus_of_workers(node, snapshot.host))};
}

allocation::Notice describe_held_cores(const std::string& host, const GrantedCores& granted) {
  return {
      fmt::format(
          "{} grants {} on {}, but other ddprun processes use so many of them that the workers share cores",
          granted.origin, count_of(granted.count, "core"), host),
      "ask for a host without other jobs (place=excl)"};
}

}  // namespace ddprun::plan
