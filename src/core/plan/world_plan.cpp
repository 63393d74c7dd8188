#include "plan/world_plan.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "allocation/asked_tasks.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "options/options.hpp"

namespace ddprun::plan {

namespace {

using Announcements = std::vector<Announcement>;

constexpr std::size_t k_max_counts_text = 1000;  // a message takes no longer text

// Returns the node, which is settled for every agent before anything is laid out.
NodeIndex node_of(const Announcement& announcement) { return announcement.node.value_or(NodeIndex{0}); }

std::string host_name(const Announcement& announcement) { return printable(announcement.host); }

void check_agents(const Announcements& announcements) {
  for (std::size_t i = 0; i < announcements.size(); ++i) {
    if (announcements[i].agent != AgentIndex{static_cast<int>(i)}) {
      const auto& number = announcements[i].agent;
      throw Error(fmt::format("{} announced itself as {} in the place of number {}",
                              host_name(announcements[i]),
                              number ? fmt::format("number {}", number->value) : "unnumbered", i));
    }
  }
}

void check_agreement(const Announcements& announcements) {
  const Announcement& first = announcements.front();
  for (const Announcement& other : announcements) {
    if (other.max_restarts != first.max_restarts) {
      throw Error(fmt::format("{} allows {} and {} allows {}", host_name(first),
                              count_of(first.max_restarts, "restart"), host_name(other), other.max_restarts),
                  "give all nodes the same --max-restarts");
    }
    if (other.host_timeout.has_value() != first.host_timeout.has_value()) {
      const bool goes_on = first.host_timeout.has_value();
      throw Error(fmt::format("{} continues when a node is lost, but {} ends",
                              host_name(goes_on ? first : other), host_name(goes_on ? other : first)),
                  "give all nodes the same --nnodes and --spares");
    }
    if (other.host_timeout != first.host_timeout) {
      throw Error(fmt::format("{} has a host timeout of {} and {} has {}", host_name(first),
                              describe_duration(*first.host_timeout), host_name(other),
                              describe_duration(*other.host_timeout)),
                  "give all nodes the same --host-timeout");
    }
    if (other.fixed_rank.has_value() != first.fixed_rank.has_value()) {
      throw Error(
          fmt::format("{} and {} disagree whether the launcher started one ddprun per node or one per worker",
                      host_name(first), host_name(other)),
          "start all ddprun processes of a job in the same way");
    }
    if (other.fixed_rank && other.workers != 1) {
      throw Error(fmt::format("{} has {} for the one rank {} of its launcher", host_name(other),
                              count_of(other.workers, "worker"), other.fixed_rank->value));
    }
    if (other.workers < 1)
      throw Error(fmt::format("{} announced {} workers", host_name(other), other.workers));
  }
}

std::string host_key(const Announcement& announcement) {
  return to_lower(short_host_name(announcement.host));
}

int launcher_rank_of(const Announcement& announcement) {
  return announcement.launcher_rank ? announcement.launcher_rank->value : announcement.agent->value;
}

bool shares_a_host(const Announcements& announcements) {
  std::map<std::string, int> agents;
  return std::ranges::any_of(announcements,
                             [&](const Announcement& each) { return ++agents[host_key(each)] > 1; });
}

// Makes agents that took themselves for a whole node single workers, too, if the launcher started one agent
// per worker.
void settle_style(Announcements& announcements) {
  if (!is_agent_per_task(announcements)) return;
  std::map<std::pair<std::string, int>, Announcement*> by_rank;
  for (Announcement& each : announcements) by_rank[{host_key(each), launcher_rank_of(each)}] = &each;
  std::map<std::string, int> before;  // agents of lower rank on the same host
  for (const auto& [place, each] : by_rank) {
    const int local = before[place.first]++;
    if (each->fixed_rank || !each->style_assumed) continue;
    each->fixed_rank = GlobalRank{launcher_rank_of(*each)};
    each->first_local_rank = LocalRank{local};
    each->workers = 1;
    // Keeps, of the workers that it would have had, the one of its local rank; a single one is that.
    std::vector<LocalPeerWorker>& workers = each->local_workers;
    const std::size_t index = workers.size() == 1 ? 0 : static_cast<std::size_t>(local);
    workers = index < workers.size() ? std::vector{workers[index]} : std::vector<LocalPeerWorker>{};
  }
}

// Orders the nodes by the lowest ranks on them: no source says which node is which.
void settle_nodes(Announcements& announcements) {
  const auto has_node = [](const Announcement& each) { return each.node.has_value(); };
  if (std::ranges::all_of(announcements, has_node)) return;
  std::map<std::string, int> lowest;
  for (const Announcement& each : announcements) {
    const auto [entry, added] = lowest.emplace(host_key(each), launcher_rank_of(each));
    if (!added) entry->second = std::min(entry->second, launcher_rank_of(each));
  }
  std::map<std::pair<int, std::string>, int> numbers;
  for (const auto& [host, rank] : lowest) numbers[{rank, host}] = 0;
  int next = 0;
  for (auto& [place, number] : numbers) number = next++;
  for (Announcement& each : announcements) {
    each.node = NodeIndex{numbers.at({lowest.at(host_key(each)), host_key(each)})};
  }
}

// Returns the place of each number among those that there are.
std::map<int, int> number_anew(const std::vector<int>& numbers) {
  std::map<int, int> places;
  for (const int number : numbers) places[number] = 0;
  int next = 0;
  for (auto& [number, place] : places) place = next++;
  return places;
}

void close_gaps(Announcements& announcements) {
  std::vector<int> nodes, ranks;
  std::map<int, std::vector<int>> local_ranks;  // indexed by node
  for (const Announcement& each : announcements) {
    nodes.push_back(node_of(each).value);
    if (!each.fixed_rank) continue;
    ranks.push_back(each.fixed_rank->value);
    local_ranks[node_of(each).value].push_back(each.first_local_rank.value);
  }
  const std::map<int, int> new_nodes = number_anew(nodes);
  const std::map<int, int> new_ranks = number_anew(ranks);
  std::map<int, std::map<int, int>> new_local_ranks;
  for (const auto& [node, numbers] : local_ranks) new_local_ranks[node] = number_anew(numbers);
  for (Announcement& each : announcements) {
    const int node = node_of(each).value;
    each.node = NodeIndex{new_nodes.at(node)};
    if (!each.fixed_rank) continue;
    each.fixed_rank = GlobalRank{new_ranks.at(each.fixed_rank->value)};
    each.first_local_rank = LocalRank{new_local_ranks.at(node).at(each.first_local_rank.value)};
  }
}

// Checks that every number 0 .. n-1 has its host; `what` is "rank" or "node".
void check_no_gaps(const std::map<int, std::string>& hosts, const std::string& what, std::size_t agents) {
  int expected = 0;
  for (const auto& [number, host] : hosts) {
    if (number != expected) {
      const std::string hint = fmt::format("number the {}s from 0 without gaps", what);
      throw Error(fmt::format("{} has {} {}, but none of the {} ddprun processes has {} {}", host, what,
                              number, agents, what, expected),
                  hint);
    }
    ++expected;
  }
}

int check_nodes(const Announcements& announcements) {
  std::map<int, std::string> nodes;
  for (const Announcement& announcement : announcements) {
    const auto [entry, added] = nodes.emplace(node_of(announcement).value, host_name(announcement));
    if (!added && (!announcement.fixed_rank || !same_host(entry->second, announcement.host))) {
      throw Error(fmt::format("{} and {} are both node {}", entry->second, host_name(announcement),
                              node_of(announcement).value),
                  announcement.launcher_rank ? "start one ddprun on each host"
                                             : "give each node its own --node-rank");
    }
  }
  check_no_gaps(nodes, "node", announcements.size());
  return static_cast<int>(nodes.size());
}

// Returns the first global rank of each agent.
std::vector<int> lay_out_fixed(const Announcements& announcements) {
  std::vector<int> first_ranks;
  std::map<int, std::string> ranks;
  std::map<std::pair<int, int>, int> local_ranks;
  for (const Announcement& announcement : announcements) {
    const int rank = announcement.fixed_rank->value;
    const auto [entry, added] = ranks.emplace(rank, host_name(announcement));
    if (!added) {
      throw Error(fmt::format("{} and {} both have rank {}", entry->second, host_name(announcement), rank),
                  "start all ddprun processes in one step");
    }
    const int local = announcement.first_local_rank.value;
    const auto [place, free] = local_ranks.emplace(std::pair{node_of(announcement).value, local}, rank);
    if (!free) {
      throw Error(fmt::format("ranks {} and {} on {} both have local rank {}", place->second, rank,
                              host_name(announcement), local),
                  "start all ddprun processes in one step");
    }
    first_ranks.push_back(rank);
  }
  check_no_gaps(ranks, "rank", announcements.size());
  return first_ranks;
}

std::vector<int> lay_out_by_node(const Announcements& announcements) {
  std::map<int, std::size_t> by_node;
  for (std::size_t i = 0; i < announcements.size(); ++i) by_node[node_of(announcements[i]).value] = i;
  std::vector<int> first_ranks(announcements.size());
  int next = 0;
  for (const auto& [node, index] : by_node) {
    first_ranks[index] = next;
    next += announcements[index].workers;
  }
  return first_ranks;
}

// Numbers the workers of each role in rank order.
void number_roles(const Announcements& announcements, std::vector<Assignment>& assignments) {
  std::map<int, std::pair<std::size_t, std::size_t>> by_rank;
  for (std::size_t agent = 0; agent < assignments.size(); ++agent) {
    for (std::size_t worker = 0; worker < assignments[agent].workers.size(); ++worker) {
      by_rank[assignments[agent].workers[worker].rank.value] = {agent, worker};
    }
  }
  std::map<std::string, int> role_sizes;
  for (const auto& [rank, place] : by_rank) {
    assignments[place.first].workers[place.second].role_rank = role_sizes[announcements[place.first].role]++;
  }
  for (std::size_t agent = 0; agent < assignments.size(); ++agent) {
    for (RankAssignment& assigned : assignments[agent].workers) {
      assigned.role_world_size = role_sizes[announcements[agent].role];
    }
  }
}

LocalPeer make_local_peer(const Announcement& announcement, const std::string& own_cpus) {
  LocalPeer local_peer;
  local_peer.first_local_rank = announcement.first_local_rank;
  local_peer.same_cpus = !own_cpus.empty() && announcement.cpus == own_cpus;
  local_peer.workers = announcement.local_workers;
  local_peer.workers.resize(static_cast<std::size_t>(announcement.workers));
  return local_peer;
}

bool has_devices(const Announcement& announcement) {
  const auto is_known = [](const LocalPeerWorker& worker) { return !worker.device.empty(); };
  return std::ranges::any_of(announcement.local_workers, is_known);
}

// Reports whether both are on one machine, not by the name alone: containers of different hosts may have the
// same.
bool same_machine(const Announcement& one, const Announcement& other) {
  const auto& addresses = other.addresses;
  return host_key(one) == host_key(other) &&
         std::ranges::any_of(one.addresses, [&](const std::string& address) {
           return std::ranges::find(addresses, address) != addresses.end();
         });
}

// Returns the agents of each host by node and local rank. Several nodes by hand may be on one host.
std::vector<std::vector<std::size_t>> agents_by_host(const Announcements& announcements) {
  std::map<std::pair<int, int>, std::size_t> places;  // node, first local rank
  for (std::size_t i = 0; i < announcements.size(); ++i) {
    places[{node_of(announcements[i]).value, announcements[i].first_local_rank.value}] = i;
  }
  std::map<int, std::size_t> host_of_node;
  std::map<std::string, std::size_t> first_host;  // indexed by host name
  std::vector<std::vector<std::size_t>> hosts;
  for (const auto& [place, agent] : places) {
    const Announcement& announcement = announcements[agent];
    const auto named = first_host.find(host_key(announcement));
    const bool together =
        named != first_host.end() && same_machine(announcements[hosts[named->second].front()], announcement);
    const auto [entry, added] = host_of_node.emplace(place.first, together ? named->second : hosts.size());
    if (entry->second == hosts.size()) hosts.emplace_back();
    if (named == first_host.end()) first_host[host_key(announcement)] = entry->second;
    hosts[entry->second].push_back(agent);
  }
  return hosts;
}

// Introduces agents of one host to each other if there is something to share: devices, or the same CPUs. If
// they are several nodes, all their local ranks begin at 0: 0 is then oneself.
void introduce_local_peers(const Announcements& announcements, std::vector<Assignment>& assignments) {
  for (const std::vector<std::size_t>& agents : agents_by_host(announcements)) {
    const bool one_node = node_of(announcements[agents.front()]) == node_of(announcements[agents.back()]);
    const auto at = [&](std::size_t agent) -> const Announcement& { return announcements[agent]; };
    const bool devices =
        std::ranges::any_of(agents, [&](std::size_t agent) { return has_devices(at(agent)); });
    std::map<std::string, int> masks;
    for (const std::size_t agent : agents) ++masks[at(agent).cpus];
    for (const std::size_t agent : agents) {
      const std::string& cpus = at(agent).cpus;
      const bool shared = !cpus.empty() && masks[cpus] > 1;
      if (agents.size() < 2 || !(devices || shared)) continue;
      for (const std::size_t other : agents) {
        std::vector<LocalPeer>& local_peers = assignments[agent].local_peers;
        local_peers.push_back(make_local_peer(at(other), cpus));
        if (one_node) continue;
        const int place = static_cast<int>(local_peers.size());
        local_peers.back().first_local_rank.value = other == agent ? 0 : place;
      }
    }
  }
}

}  // namespace

std::string write_counts(const std::vector<int>& workers_of_nodes) {
  std::vector<std::pair<int, int>> runs;  // workers, nodes in a row
  for (const int workers : workers_of_nodes) {
    if (runs.empty() || runs.back().first != workers) runs.emplace_back(workers, 0);
    ++runs.back().second;
  }
  std::vector<std::string> parts;
  for (const auto& [workers, nodes] : runs) {
    parts.push_back(nodes == 1 ? fmt::format("{}", workers) : fmt::format("{}(x{})", workers, nodes));
  }
  const std::string text = join(parts, ",");
  return text.size() <= k_max_counts_text ? text : std::string();
}

bool is_agent_per_task(const Announcements& announcements) {
  const auto is_fixed = [](const Announcement& each) { return each.fixed_rank.has_value(); };
  const auto is_assumed = [](const Announcement& each) { return each.style_assumed; };
  return std::ranges::any_of(announcements, is_fixed) ||
         (std::ranges::all_of(announcements, is_assumed) && shares_a_host(announcements));
}

void settle_tasks(Announcements& announcements) {
  const auto is_open = [](const Announcement& each) { return each.for_tasks; };
  const auto tells = [](const Announcement& each) { return !each.asked_tasks.empty(); };
  const auto told = std::ranges::find_if(announcements, tells);
  if (told == announcements.end() || !std::ranges::all_of(announcements, is_open)) return;
  const auto asked = allocation::parse_asked_tasks(told->asked_tasks, printable(told->host));
  for (Announcement& each : announcements) {
    const int tasks = allocation::count_asked_tasks(asked, each.host);
    if (tasks > 0) each.workers = std::min(tasks, options::k_max_workers);
  }
}

std::vector<int> ranks_of(const Assignment& assignment) {
  std::vector<int> ranks;
  for (const RankAssignment& assigned : assignment.workers) ranks.push_back(assigned.rank.value);
  return ranks;
}

WorldPlan make_world_plan(const Announcements& announced, Gaps gaps) {
  if (announced.empty()) throw Error("no ddprun process announced itself");
  if (gaps == Gaps::refused) check_agents(announced);
  Announcements announcements = announced;
  settle_tasks(announcements);
  settle_style(announcements);
  settle_nodes(announcements);
  if (gaps == Gaps::closed) close_gaps(announcements);
  check_agreement(announcements);
  const int nodes = check_nodes(announcements);

  WorldPlan world;
  std::map<int, int> workers_by_node;
  for (const Announcement& announcement : announcements) {
    if (announcement.workers > k_max_world - world.world_size) {
      throw Error(fmt::format("more than {} workers in all", k_max_world));
    }
    world.world_size += announcement.workers;
    workers_by_node[node_of(announcement).value] += announcement.workers;
  }
  const std::vector<int> first_ranks =
      announcements.front().fixed_rank ? lay_out_fixed(announcements) : lay_out_by_node(announcements);
  const bool several =
      std::ranges::any_of(announcements, [](const Announcement& each) { return each.workers > 1; });
  std::vector<int> of_nodes;
  for (const auto& [node, workers] : workers_by_node) of_nodes.push_back(workers);
  const std::string counts = write_counts(of_nodes);
  for (std::size_t i = 0; i < announcements.size(); ++i) {
    const Announcement& announcement = announcements[i];
    Assignment& assignment = world.assignments.emplace_back();
    assignment.several_workers = several;
    assignment.workers_of_nodes = counts;
    assignment.world_size = world.world_size;
    assignment.local_world_size = workers_by_node[node_of(announcement).value];
    assignment.node = node_of(announcement);
    assignment.node_count = nodes;
    assignment.agent_per_task = announcement.fixed_rank.has_value();
    for (int worker = 0; worker < announcement.workers; ++worker) {
      const int local = announcement.first_local_rank.value + worker;
      assignment.workers.push_back({{first_ranks[i] + worker}, {local}, 0, 1});
    }
  }
  number_roles(announcements, world.assignments);
  introduce_local_peers(announcements, world.assignments);
  return world;
}

}  // namespace ddprun::plan
