#include "plan/bind_workers.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "placement/assumed_topology.hpp"
#include "placement/nearest_nic.hpp"
#include "placement/placement.hpp"
#include "placement/placement_parts.hpp"
#include "plan/worker_count.hpp"

namespace ddprun::plan {

namespace {

using NearGpus = std::vector<std::vector<int>>;

bool is_task(const LaunchPlan& plan) {
  return plan.node->allocation.style.value == allocation::LaunchStyle::agent_per_task;
}

std::vector<int> cpus_near_address(const std::string& address, const facts::Snapshot& snapshot) {
  if (address.empty()) return {};
  for (const facts::PciDevice& device : snapshot.host.topology->devices) {
    if (device.address == address && !device.cpus.empty()) return device.cpus;
  }
  for (const facts::Gpu& gpu : snapshot.host.gpus) {
    if (facts::normal_pci_address(gpu.pci_address) == address) return gpu.local_cpus;
  }
  return {};
}

std::vector<int> cpus_near_gpu(const facts::Gpu& gpu, const facts::Snapshot& snapshot) {
  const std::vector<int> cpus = cpus_near_address(facts::normal_pci_address(gpu.pci_address), snapshot);
  return cpus.empty() ? gpu.local_cpus : cpus;
}

NearGpus near_gpus_of(const PlannedWorker& worker, const facts::Snapshot& snapshot) {
  NearGpus near;
  for (const int gpu : worker.gpus) {
    near.push_back(cpus_near_gpu(snapshot.host.gpus.at(static_cast<std::size_t>(gpu)), snapshot));
  }
  return near;
}

NearGpus near_gpus_of(const LocalPeerWorker& worker, const facts::Snapshot& snapshot) {
  NearGpus near;
  for (const std::string& address : worker.gpus) near.push_back(cpus_near_address(address, snapshot));
  return near;
}

// All workers of this host that share this agent's CPUs, and where its own begin among them.
struct Sharers {
  std::vector<NearGpus> near_gpus;
  std::size_t first = 0;
  bool keep = false;  // this agent is the only one with these CPUs, and they were chosen for it
};

Sharers own_workers(const LaunchPlan& plan, const facts::Snapshot& snapshot) {
  Sharers sharers;
  for (const PlannedWorker& worker : plan.planned)
    sharers.near_gpus.push_back(near_gpus_of(worker, snapshot));
  const bool narrowed = snapshot.host.allowed_cpus.size() < facts::all_cpus(*snapshot.host.topology).size();
  sharers.keep = is_task(plan) && narrowed;
  return sharers;
}

// Returns the workers that share this host, in the order of the coordinator: every agent of the host computes
// the same list.
Sharers among(const std::vector<LocalPeer>& local_peers, const LaunchPlan& plan,
              const facts::Snapshot& snapshot) {
  Sharers sharers;
  for (const LocalPeer& local_peer : local_peers) {
    const bool own = local_peer.first_local_rank == plan.planned.front().local_rank;
    if (!local_peer.same_cpus && !own) continue;
    if (own) sharers.first = sharers.near_gpus.size();
    for (const LocalPeerWorker& worker : local_peer.workers) {
      sharers.near_gpus.push_back(near_gpus_of(worker, snapshot));
    }
    if (local_peer.workers.empty()) sharers.near_gpus.emplace_back();
  }
  return sharers;
}

// Returns the expected tasks before they have met: as many as the scheduler says, each with the GPU of its
// local rank if every task sees them all.
Sharers expected_tasks(const LaunchPlan& plan, const facts::Snapshot& snapshot,
                       const placement::VisibleDevices& devices) {
  Sharers sharers;
  const auto own = static_cast<std::size_t>(plan.planned.front().local_rank.value);
  for (std::size_t local = 0; local < static_cast<std::size_t>(plan.node->local_world_size); ++local) {
    PlannedWorker worker;
    if (local < devices.gpus.size() && devices.gpus[local]) worker.gpus = {*devices.gpus[local]};
    sharers.near_gpus.push_back(near_gpus_of(local == own ? plan.planned.front() : worker, snapshot));
  }
  sharers.first = std::min(own, sharers.near_gpus.size() - 1);
  return sharers;
}

Sharers find_sharers(const LaunchPlan& plan, const facts::Snapshot& snapshot) {
  const std::vector<LocalPeer>& local_peers = plan.assignment.local_peers;
  const auto shares = [&](const LocalPeer& each) {
    return each.same_cpus && each.first_local_rank != plan.planned.front().local_rank;
  };
  if (std::ranges::any_of(local_peers, shares)) return among(local_peers, plan, snapshot);
  const bool met = !local_peers.empty() || !is_task(plan) || plan.node->local_world_size < 2;
  if (met || !shares_mask(plan.node->allocation, snapshot)) return own_workers(plan, snapshot);
  return expected_tasks(plan, snapshot, placement::find_visible_devices(snapshot));
}

placement::PlacementRequest make_request(const LaunchPlan& plan, const facts::Snapshot& snapshot,
                                         std::vector<NearGpus> near_gpus) {
  placement::PlacementRequest request;
  request.topology = *snapshot.host.topology;
  request.allowed_cpus = snapshot.host.allowed_cpus;
  request.allowed_memory_nodes = snapshot.host.allowed_memory_nodes;
  request.bind = plan.node->options.bind;
  request.memory = plan.node->options.memory_bind.value;
  request.near_gpus = std::move(near_gpus);
  return request;
}

// Picks the task's own list: one with CPUs of its own is the only worker there; of a list for each of the
// host's workers it takes its own.
void pick_own_list(placement::PlacementRequest& request, const LaunchPlan& plan) {
  std::vector<std::vector<int>>& lists = request.bind.lists;
  const auto workers = static_cast<std::size_t>(plan.node->local_world_size);
  if (request.near_gpus.size() != 1 || workers < 2 || lists.size() != workers) return;
  const auto own = static_cast<std::size_t>(plan.planned.front().local_rank.value);
  if (own < lists.size()) lists = {lists[own]};
}

// Reports whether a notice names the lack of cores already, with the launcher's own option, which the
// placement does not know.
bool is_said(const placement::Placement& placement, const LaunchPlan& plan, const facts::Snapshot& snapshot) {
  const bool unbound = std::ranges::all_of(placement.workers,
                                           [](const facts::Binding& worker) { return worker.cpus.empty(); });
  return unbound &&
         find_crowded_cores(plan.node->allocation, snapshot,
                            placement::node_name(snapshot.host, plan.node->host), plan.node->workers.value);
}

}  // namespace

void bind_workers(LaunchPlan& plan, const facts::Snapshot& snapshot) {
  if (plan.node->options.bind.mode == options::BindMode::none || plan.planned.empty()) {
    plan.binding.origin = plan.node->options.bind.origin;
    return;
  }
  if (!snapshot.host.topology || snapshot.host.allowed_cpus.empty()) return;
  Sharers sharers = find_sharers(plan, snapshot);
  if (sharers.keep && plan.node->options.bind.mode == options::BindMode::automatic) {
    plan.binding.origin = "CPUs that were chosen for this task";
    return;
  }
  placement::PlacementRequest request = make_request(plan, snapshot, std::move(sharers.near_gpus));
  pick_own_list(request, plan);
  placement::Placement placement = placement::place_workers(request);
  for (std::size_t i = 0; i < plan.planned.size(); ++i) {
    plan.planned[i].binding = std::move(placement.workers.at(sharers.first + i));
  }
  plan.binding = {std::move(placement.origin), std::move(placement.spare)};
  if (!is_said(placement, plan, snapshot)) plan.notices = std::move(placement.notices);
}

bool needs_topology(const options::Options& options, const allocation::Allocation& allocation,
                    const facts::Snapshot& snapshot) {
  if (options.nic.value) return true;
  if (options.bind.mode == options::BindMode::none) return false;
  const bool alone =
      allocation.scheduler.value == facts::Scheduler::none && allocation.launcher.value.empty() &&
      allocation.style.value == allocation::LaunchStyle::alone && !options::outlives_nodes(options);
  const options::WorkersPerNode& workers = options.workers;
  const bool one = workers.kind == options::WorkersKind::unset ||
                   (workers.kind == options::WorkersKind::number && workers.number == 1);
  const bool plain = options.bind.mode == options::BindMode::automatic &&
                     options.memory_bind.value == options::MemoryBind::automatic && !options.omp_places &&
                     !options.show_binding;
  return !alone || !one || !plain || !snapshot.host.gpus.empty();
}

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
