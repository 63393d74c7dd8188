#include "plan/follow_binding.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "placement/assumed_topology.hpp"
#include "placement/nearest_nic.hpp"
#include "plan/worker_count.hpp"

namespace ddprun::plan {

namespace {

void choose_cards(LaunchPlan& plan, const facts::Snapshot& snapshot) {
  if (!plan.node->options.nic.value || !snapshot.host.topology) return;
  std::vector<placement::CardSeeker> seekers;
  for (const PlannedWorker& worker : plan.planned) {
    placement::CardSeeker& seeker = seekers.emplace_back();
    seeker.local_rank = worker.local_rank;
    seeker.cpus = worker.binding.cpus.empty() ? snapshot.host.allowed_cpus : worker.binding.cpus;
    for (const int gpu : worker.gpus) {
      seeker.addresses.push_back(snapshot.host.gpus[static_cast<std::size_t>(gpu)].pci_address);
    }
  }
  const std::vector<std::string> cards = placement::choose_network_cards(*snapshot.host.topology, seekers);
  for (std::size_t i = 0; i < cards.size(); ++i) plan.planned[i].network_card = cards[i];
}

// Lays out the places of OpenMP. The only worker of a host is left unbound if it would get everything.
void lay_out_places(LaunchPlan& plan, const facts::Snapshot& snapshot) {
  if (!plan.node->options.omp_places) return;
  for (PlannedWorker& worker : plan.planned) {
    const bool alone = plan.node->local_world_size == 1 && worker.binding.cpus.empty();
    worker.omp_places =
        render_omp_places(alone ? snapshot.host.allowed_cpus : worker.binding.cpus, snapshot.host.topology);
  }
}

std::vector<facts::Binding> bindings_of(const LaunchPlan& plan) {
  std::vector<facts::Binding> bindings;
  for (const PlannedWorker& worker : plan.planned) bindings.push_back(worker.binding);
  return bindings;
}

}  // namespace

void follow_binding(LaunchPlan& plan, const facts::Snapshot& snapshot) {
  plan.threads = threads_of_bindings(plan.node->allocation, snapshot, bindings_of(plan));
  choose_cards(plan, snapshot);
  lay_out_places(plan, snapshot);
}

std::optional<allocation::Notice> find_many_threads(const LaunchPlan& plan, const facts::Snapshot& snapshot) {
  return find_many_threads(plan.node->allocation, snapshot,
                           placement::node_name(snapshot.host, plan.node->host), bindings_of(plan));
}

std::optional<allocation::Notice> find_no_card(const LaunchPlan& plan, const facts::Snapshot& snapshot) {
  const auto has_card = [](const PlannedWorker& worker) { return !worker.network_card.empty(); };
  const auto& workers = plan.planned;
  if (!plan.node->options.nic.value || std::ranges::any_of(workers, has_card)) return std::nullopt;
  const std::string& origin = plan.node->options.nic.origin;
  if (!snapshot.host.topology) {
    return allocation::Notice{
        fmt::format("{} has no effect: the topology of {} is not known", origin, plan.node->host), ""};
  }
  return allocation::Notice{
      fmt::format("{} has no effect: {}", origin,
                  placement::why_no_card(*snapshot.host.topology,
                                         placement::node_name(snapshot.host, plan.node->host))),
      ""};
}

std::string render_omp_places(const std::vector<int>& cpus, const std::optional<facts::Topology>& topology) {
  std::vector<std::vector<int>> cores;
  if (topology) {
    for (const facts::Core& core : topology->cores) cores.push_back(core.cpus);
  } else {
    for (const int cpu : cpus) cores.push_back({cpu});
  }
  std::vector<std::string> places;
  for (const std::vector<int>& core : cores) {
    std::vector<std::string> threads;
    for (const int cpu : core) {
      if (std::ranges::binary_search(cpus, cpu)) threads.push_back(fmt::format("{}", cpu));
    }
    if (!threads.empty()) places.push_back("{" + join(threads, ",") + "}");
  }
  return join(places, ",");
}

}  // namespace ddprun::plan
