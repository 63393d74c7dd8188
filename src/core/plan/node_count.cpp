#include "plan/node_count.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/hostlist.hpp"
#include "allocation/launchers/launchers.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

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

}  // namespace ddprun::plan
