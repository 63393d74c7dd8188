#include "plan/launch_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "allocation/detection/started.hpp"
#include "allocation/hostlist.hpp"
#include "allocation/launchers/launchers.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::plan {

namespace {

std::string name_hosts(const std::vector<Announcement>& announcements) {
  std::vector<std::string> hosts;
  for (const Announcement& each : announcements) {
    std::string host = printable(each.host);
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(std::move(host));
  }
  return allocation::compress_hostlist(hosts);
}

std::string one_on_each(const ExpectedNodes& expected, int nodes) {
  return fmt::format("start one ddprun on each node: {} ddprun ...",
                     fmt::format(fmt::runtime(expected.one_a_node), nodes));
}

}  // namespace

std::optional<ExpectedNodes> expect_nodes(const allocation::Allocation& allocation,
                                          const allocation::PlaceOptions& options,
                                          const facts::Snapshot& snapshot) {
  if (!allocation.numbered_by_launcher) return std::nullopt;
  for (const allocation::LaunchPlace& place : allocation::find_launch_places(snapshot)) {
    if (place.launcher != allocation.launcher.value) continue;
    return ExpectedNodes{options.nodes, allocation.job_nodes, place.launcher, place.one_a_node};
  }
  return std::nullopt;
}

std::optional<allocation::Notice> check_node_count(const std::vector<Announcement>& announcements,
                                                   const WorldPlan& world, const ExpectedNodes& expected) {
  const int nodes = world.assignments.front().node_count;
  const std::string where = fmt::format("{} ({})", count_of(nodes, "node"), name_hosts(announcements));
  if (expected.asked && expected.asked->value != nodes) {
    throw Error(fmt::format("{} {}, but {} started {} ddprun processes on {}", expected.asked->origin,
                            expected.asked->value, expected.launcher, announcements.size(), where),
                one_on_each(expected, expected.asked->value));
  }
  if (expected.asked || expected.of_job.value <= nodes) return std::nullopt;
  return allocation::Notice{
      fmt::format("{} started ddprun on {} of the job's {} nodes ({})", expected.launcher, nodes,
                  expected.of_job.value, name_hosts(announcements)),
      one_on_each(expected, expected.of_job.value) +
          fmt::format("; to use {} on purpose, add --nnodes {}", nodes, nodes)};
}

std::vector<std::string> spare_hosts(const RendezvousPlan& rendezvous, const options::Options& options) {
  std::vector<std::string> hosts;
  for (int place = std::max(rendezvous.agents - options.spares.value, 0); place < rendezvous.agents;
       ++place) {
    const auto slot = static_cast<std::size_t>(place);
    hosts.push_back(rendezvous.peers[rendezvous.order.empty() ? slot : rendezvous.order[slot]]);
  }
  const bool known = std::ranges::none_of(hosts, &std::string::empty);
  return known ? hosts : std::vector<std::string>();
}

bool is_spare(const RendezvousPlan& rendezvous, const options::Options& options) {
  const auto agent = static_cast<std::size_t>(rendezvous.agent.value);
  const auto& order = rendezvous.order;
  const auto slot = order.empty() ? rendezvous.agent.value : std::ranges::find(order, agent) - order.begin();
  return !rendezvous.by_arrival && std::cmp_greater_equal(slot, rendezvous.agents - options.spares.value);
}

void check_spares(const NodeProposal& node) {
  const Sourced<int>& spares = node.options.spares;
  if (spares.value == 0) return;
  if (node.allocation.style.value == allocation::LaunchStyle::agent_per_task) {
    throw UsageError(fmt::format("{} requires one ddprun per node, but {} started one per task",
                                 spares.origin, node.allocation.launcher.value),
                     "start one ddprun on each node");
  }
  if (spares.value < node.rendezvous.agents) return;
  throw UsageError(fmt::format("{} {} leaves none of {}", spares.origin, spares.value,
                               count_of(node.rendezvous.agents, "node")),
                   "give fewer spares, or more nodes");
}

bool may_be_started_again(const NodeProposal& node) {
  const allocation::Allocation& allocation = node.allocation;
  const bool of_a_job = !allocation.job_id.value.empty() && !allocation.place.known();
  return node.options.max_restarts.value > 0 && !options::outlives_nodes(node.options) &&
         node.rendezvous.agents > 1 && allocation.scheduler.value == facts::Scheduler::manual &&
         allocation.launcher.value.empty() && !of_a_job;
}

namespace {

// Returns a notice if the step was started without --no-kill. The hint names the job's --no-kill, too: no
// source shows whether the job was submitted with it.
std::optional<allocation::Notice> find_strict_srun(const facts::Snapshot& snapshot) {
  const auto& step = snapshot.host.step;
  if (!step) return std::nullopt;
  std::vector<std::string> lacking;
  if (!step->no_kill) lacking.emplace_back("--no-kill");
  if (step->kill_on_bad_exit) lacking.emplace_back("--kill-on-bad-exit=0");
  if (step->wait > 0) lacking.emplace_back("--wait=0");
  if (lacking.empty()) return std::nullopt;
  const bool of_nodes = !step->kill_on_bad_exit && step->wait == 0;
  return allocation::Notice{
      fmt::format("srun ends ddprun on all nodes when {}, without {}",
                  of_nodes ? "a node fails" : "ddprun is lost on one", join(lacking, " ")),
      "srun --no-kill --kill-on-bad-exit=0 --wait=0 ddprun ..., in a job submitted with sbatch --no-kill"};
}

// Reports whether mpirun continues after a loss. That of Open MPI 4 passes the option on. That of 5 and
// prterun do not, so their sentences name it as a condition.
bool recovers(const facts::Snapshot& snapshot) {
  return facts::find_variable(snapshot, "OMPI_MCA_orte_enable_recovery").value_or("0") != "0";
}

}  // namespace

std::optional<allocation::Notice> find_strict_launcher(const NodeProposal& node,
                                                       const facts::Snapshot& snapshot) {
  const std::string& launcher = node.allocation.launcher.value;
  const bool by_itself = facts::find_variable(snapshot, allocation::k_front_end_variable).has_value();
  if (!options::outlives_nodes(node.options) || by_itself || node.rendezvous.agents == 1) return std::nullopt;
  const std::string what = fmt::format("{} ends ddprun on all nodes when ddprun is lost on one", launcher);
  if (launcher == "hydra")
    return allocation::Notice{what, "start ddprun by ssh (--launcher), srun or mpiexec of Open MPI"};
  if (launcher == "srun") return find_strict_srun(snapshot);
  if (launcher == "Open MPI" && !recovers(snapshot))
    return allocation::Notice{what + ", without --enable-recovery", ""};
  if (launcher == "PRRTE") return allocation::Notice{what + ", without --runtime-options recoverable", ""};
  return std::nullopt;
}

namespace {

constexpr std::size_t k_groups_shown = 4;

// The hosts that have the same of something.
template <class Key, class Order = std::less<>>
using HostsBy = std::map<Key, std::vector<std::string>, Order>;

void add_host(std::vector<std::string>& hosts, const Announcement& announcement) {
  const std::string host = printable(announcement.host);
  if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
}

// Returns "4 on n[1-2], 3 on n3".
template <class Groups>
std::string describe_groups(const Groups& groups) {
  std::vector<std::string> parts;
  for (const auto& [key, hosts] : groups) {
    if (parts.size() == k_groups_shown) break;
    parts.push_back(fmt::format("{} on {}", key, allocation::compress_hostlist(hosts)));
  }
  if (groups.size() > parts.size()) parts.push_back(fmt::format("{} more", groups.size() - parts.size()));
  return join(parts, ", ");
}

std::vector<allocation::Notice> find_missing(const std::vector<Announcement>& announcements) {
  HostsBy<std::string> groups;
  for (const Announcement& each : announcements) {
    if (!each.missing_gpus.empty()) add_host(groups[printable(each.missing_gpus)], each);
  }
  std::vector<allocation::Notice> notices;
  for (const auto& [missing, hosts] : groups) {
    if (notices.size() == k_groups_shown) break;
    notices.push_back(describe_missing_gpus(allocation::compress_hostlist(hosts), missing));
  }
  return notices;
}

}  // namespace

allocation::Notice describe_missing_gpus(const std::string& hosts, const std::string& missing) {
  // One list chooses from what another leaves, and was written as if both numbered the whole node.
  const std::size_t within = missing.find(" within ");
  if (within != std::string::npos) {
    const std::string inner = missing.substr(0, within);
    const std::vector<std::string> rest = split_words(missing.substr(within + 8));
    return {fmt::format("{}: {}", hosts, missing),
            fmt::format("{0} counts from 0 within what {1} leaves: unset {0}, or set it to 0", inner,
                        rest.empty() ? "" : rest.front())};
  }
  return {fmt::format("{}: {}", hosts, missing),
          "check the node's GPUs, or correct the number if it has no more"};
}

std::vector<allocation::Notice> find_unlike_gpus(const std::vector<Announcement>& announcements) {
  std::vector<allocation::Notice> notices = find_missing(announcements);
  const bool asked_for = std::ranges::all_of(announcements, &Announcement::for_tasks);
  if (asked_for) return notices;
  HostsBy<int, std::greater<>> groups;
  std::int64_t world = 0;
  for (const Announcement& each : announcements) {
    if (!each.counted) return notices;
    world += each.workers;
    add_host(groups[each.workers], each);
  }
  if (groups.size() < 2) return notices;
  notices.push_back({fmt::format("the nodes start different numbers of workers: {} (world size {})",
                                 describe_groups(groups), world),
                     "each node starts one worker for each GPU it sees; --nproc-per-node N sets the number"});
  return notices;
}

std::optional<allocation::Notice> find_crowded_hosts(const std::vector<Announcement>& announcements) {
  HostsBy<std::string> groups;
  for (const Announcement& each : announcements) {
    const auto cpus = facts::parse_cpu_list(each.cpus);
    if (!cpus || cpus->empty() || each.fixed_rank) continue;
    const auto count = std::ssize(*cpus);
    if (each.workers > count)
      add_host(groups[fmt::format("{} workers share {}", each.workers, count_of(count, "CPU"))], each);
  }
  if (groups.empty()) return std::nullopt;
  return allocation::Notice{
      describe_groups(groups),
      "request more CPUs for each task or node (--cpus-per-task under Slurm), or start fewer workers"};
}

std::optional<allocation::Notice> find_unlike_python(const std::vector<Announcement>& announcements) {
  HostsBy<std::string> groups;
  for (const Announcement& each : announcements) {
    if (each.python.torch.empty()) continue;
    add_host(groups[fmt::format("torch {} with Python {}", printable(each.python.torch, 64),
                                printable(each.python.version, 16))],
             each);
  }
  if (groups.size() < 2) return std::nullopt;
  return allocation::Notice{"the nodes have different versions: " + describe_groups(groups),
                            "workers of different torch versions can wait for each other forever: use one "
                            "Python environment on all nodes"};
}

}  // namespace ddprun::plan
