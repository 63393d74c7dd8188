#include "plan/unlike_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "allocation/hostlist.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::plan {

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
