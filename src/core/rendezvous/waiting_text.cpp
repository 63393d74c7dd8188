#include "rendezvous/waiting_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "allocation/hostlist.hpp"
#include "base/text.hpp"

namespace ddprun::rendezvous {

namespace {

// Returns "0-3 and 8" for sorted numbers.
std::string describe_numbers(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    parts.push_back(first == last ? fmt::format("{}", numbers[first])
                                  : fmt::format("{}-{}", numbers[first], numbers[last]));
    first = last + 1;
  }
  if (parts.size() < 2) return join(parts, "");
  const std::string end = parts.back();
  parts.pop_back();
  return join(parts, ", ") + " and " + end;
}

}  // namespace

std::string describe_hosts(const std::vector<std::string>& names) {
  std::vector<std::string> unique;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (seen.insert(name).second) unique.push_back(printable(name));
  }
  return allocation::compress_hostlist(unique);
}

std::string describe_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return (ranks.size() == 1 ? "rank " : "ranks ") + describe_numbers(ranks);
}

std::string describe_missing(const std::vector<int>& missing, int agents,
                             const std::vector<std::string>& peers) {
  std::vector<std::string> hosts;
  std::vector<int> unnamed;
  for (const int agent : missing) {
    const auto index = static_cast<std::size_t>(agent);
    if (index < peers.size() && !peers[index].empty()) {
      hosts.push_back(peers[index]);
    } else {
      unnamed.push_back(agent);
    }
  }
  if (!unnamed.empty()) {
    return fmt::format("{} of {} nodes: node rank {}", missing.size(), agents, describe_numbers(missing));
  }
  const bool shared = std::set<std::string>(peers.begin(), peers.end()).size() < peers.size();
  return fmt::format("{} of {} {} {}", missing.size(), agents,
                     shared ? "tasks on" : "nodes:", describe_hosts(hosts));
}

std::string describe_second(const Join& join, int agents) {
  const std::string host = printable(join.announcement.host);
  const auto& number = join.announcement.agent;
  return number ? fmt::format("another ddprun has already joined in the place of {} (number {})", host,
                              number->value)
                : fmt::format("the job already has all its {} nodes; {} cannot join", agents, host);
}

}  // namespace ddprun::rendezvous
