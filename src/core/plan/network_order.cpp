#include "plan/network_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::plan {

namespace {

using allocation::NetworkPlace;
using Places = std::vector<NetworkPlace>;
using Indices = std::vector<std::size_t>;

std::vector<std::string> levels_of(const NetworkPlace& place) {
  return place.switches.empty() ? std::vector<std::string>() : split(place.switches, '/');
}

Indices count_up(std::size_t size) {
  Indices all(size);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

// Reads what is known of all hosts, best first.
struct Source {
  allocation::NetworkPlaces places;
  std::string origin;
};
std::vector<Source> read_sources(const NodeProposal& node, const facts::Snapshot& snapshot) {
  std::vector<Source> sources;
  const std::string file = options::order_file(node.options);
  if (!file.empty())
    sources.push_back(
        {allocation::parse_host_order(snapshot.files.at(file), file), node.options.order.origin});
  if (const auto& lines = node.site.profile.switches; !lines.empty())
    sources.push_back(
        {allocation::parse_host_order(join(lines, "\n"), node.site.profile.source), node.site.as_origin()});
  const auto shown = snapshot.files.find(std::string(allocation::k_shown_topology));
  if (shown != snapshot.files.end())
    sources.push_back({allocation::parse_shown_topology(shown->second), shown->first});
  return sources;
}

Sourced<NetworkPlace> find_place(const std::string& host, const std::vector<Source>& sources) {
  for (const Source& source : sources) {
    const auto found = source.places.find(to_lower(short_host_name(host)));
    if (found != source.places.end()) return {found->second, source.origin};
  }
  const std::string cabinet = allocation::find_cabinet(host);
  return {{{}, cabinet, {}}, cabinet.empty() ? "" : "host name"};
}

// Puts the agents into order where the places of all hosts are known.
void order_agents(NodeProposal& node, const std::vector<Source>& sources) {
  Places places;
  for (const std::string& host : node.rendezvous.peers) {
    const Sourced<NetworkPlace> place = find_place(host, sources);
    if (host.empty() || place.origin.empty()) return;
    places.push_back(place.value);
  }
  if (node.rendezvous.by_arrival) return;
  NetworkPlan& network = node.network;
  std::vector<std::size_t>& order = node.rendezvous.order = order_by_network(places);
  network.crossings = count_crossings(places, order);
  network.crossings_before = count_crossings(places, count_up(places.size()));
  const auto own = std::ranges::find(order, static_cast<std::size_t>(node.rendezvous.agent.value));
  node.allocation.node_rank =
      sourced(NodeIndex{static_cast<int>(own - order.begin())}, node.options.order.origin);
}

}  // namespace

Sourced<std::string> find_own_switches(const facts::Snapshot& snapshot, const std::string& host) {
  const std::string told = allocation::parse_topology_address(
      facts::find_variable(snapshot, "SLURM_TOPOLOGY_ADDR").value_or(""),
      facts::find_variable(snapshot, "SLURM_TOPOLOGY_ADDR_PATTERN").value_or(""));
  if (!told.empty()) return {told, "SLURM_TOPOLOGY_ADDR"};
  const Sourced<NetworkPlace> named = find_place(host, {});
  return {named.value.switches, named.origin};
}

std::string unit_of(const NetworkPlace& place) {
  if (!place.domain.empty()) return "NVLink domain " + place.domain;
  return place.switches.empty() ? "" : "switch " + place.switches;
}

Indices order_by_network(const Places& places) {
  std::map<std::string, std::size_t> first;  // first host of each switch and domain
  std::vector<Indices> keys;
  for (std::size_t i = 0; i < places.size(); ++i) {
    // A domain is where its first host is.
    const std::string& domain = places[i].domain;
    const std::size_t at = domain.empty() ? i : first.try_emplace(domain, i).first->second;
    Indices& key = keys.emplace_back();
    const auto position = places[i].position;
    key = {position ? std::size_t{0} : std::size_t{1}, static_cast<std::size_t>(position.value_or(0))};
    std::string path;
    for (const std::string& level : levels_of(places[at])) {
      path += "/" + level;
      key.push_back(first.try_emplace(path, i).first->second);
    }
    key.push_back(at);
    key.push_back(i);
  }
  Indices order = count_up(places.size());
  std::ranges::sort(order, {}, [&](std::size_t i) -> const Indices& { return keys[i]; });
  return order;
}

int count_crossings(const Places& places, const Indices& order) {
  int crossings = 0;
  for (std::size_t i = 0; i < order.size() && order.size() > 1; ++i) {
    const NetworkPlace& from = places[order[i]];
    const NetworkPlace& to = places[order[(i + 1) % order.size()]];
    crossings += unit_of(from) != unit_of(to) ? 1 : 0;
  }
  return crossings;
}

int closeness(const NetworkPlace& one, const NetworkPlace& other) {
  constexpr int k_more_than_all_switches = 1000;
  if (!one.domain.empty() && one.domain == other.domain) return k_more_than_all_switches;
  const std::vector<std::string> a = levels_of(one), b = levels_of(other);
  return static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::optional<allocation::Notice> find_unordered(const std::vector<Announcement>& announcements) {
  if (is_agent_per_task(announcements))
    return allocation::Notice{"--order has no effect: the launcher started one ddprun per task",
                              "start one ddprun on each node"};
  std::vector<std::string> unknown;
  for (const Announcement& each : announcements) {
    if (each.network == NetworkPlace{}) unknown.push_back(printable(each.host, 64));
  }
  if (unknown.empty() || announcements.size() == 1) return std::nullopt;
  const auto is_given = [](const Announcement& each) { return each.network.position.has_value(); };
  if (std::ranges::any_of(announcements, is_given))
    return allocation::Notice{
        fmt::format("{} {} in no line of the file of --order; ranks there are the last",
                    allocation::compress_hostlist(unknown), unknown.size() == 1 ? "is" : "are"),
        "add a line to the file"};
  return allocation::Notice{
      fmt::format("neither a switch nor an NVLink domain of {} is known; {} the scheduler's place",
                  allocation::compress_hostlist(unknown), unknown.size() == 1 ? "it keeps" : "they keep"),
      "name the switches in a file: --order FILE, with lines as n[1-4] s0/leaf1"};
}

bool asks_for_topology(const options::Options& options, const allocation::Allocation& allocation,
                       const facts::Snapshot& snapshot) {
  const bool told = facts::find_variable(snapshot, "SLURM_TOPOLOGY_ADDR").has_value();
  return options.order.value == options::k_network_order &&
         allocation.scheduler.value == facts::Scheduler::slurm &&
         (!told || options.dry_run != options::DryRun::off);
}

void apply_order(NodeProposal& node, const facts::Snapshot& snapshot) {
  const Sourced<std::string>& order = node.options.order;
  if (!options::orders_by_network(node.options) || node.rendezvous.agents == 1) return;
  if (node.allocation.style.value == allocation::LaunchStyle::agent_per_task) {
    throw UsageError(fmt::format("{} requires one ddprun per node, but {} started one per task, whose ranks "
                                 "are its own",
                                 order.origin, node.allocation.launcher.value),
                     "start one ddprun on each node");
  }
  const std::vector<Source> sources = read_sources(node, snapshot);
  Sourced<NetworkPlace> own = find_place(node.host, sources);
  if (own.value == NetworkPlace{}) {
    const Sourced<std::string> told = find_own_switches(snapshot, node.host);
    own = {{{}, told.value, {}}, told.origin};
  }
  // The order that a person gives is not mended.
  if (!own.value.position) own.value.domain = snapshot.host.nvlink_domain;
  node.network.own = own.value;
  node.network.origin = own.origin.empty() && !own.value.domain.empty() ? "NVML" : own.origin;
  order_agents(node, sources);
}

}  // namespace ddprun::plan
