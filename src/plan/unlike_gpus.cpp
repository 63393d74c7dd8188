#include "plan/unlike_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "allocation/hostlist.hpp"
#include "base/text.hpp"

namespace ddprun::plan {

namespace {

constexpr std::size_t k_groups_shown = 4;

template <class Key, class Order>
using HostsBy = std::map<Key, std::vector<std::string>, Order>;

template <class Groups, class Key>
void add_host(Groups& groups, const Key& key, const Announcement& announcement) {
  std::vector<std::string>& hosts = groups[key];
  const std::string host = printable(announcement.host);
  if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
}

std::vector<allocation::Notice> find_missing(const std::vector<Announcement>& announcements) {
  HostsBy<std::string, std::less<>> groups;
  for (const Announcement& each : announcements) {
    if (!each.missing_gpus.empty()) add_host(groups, printable(each.missing_gpus), each);
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
  return {fmt::format("{}: {}", hosts, missing),
          "check the node's GPUs, or correct the number if it has no more"};
}

std::vector<allocation::Notice> find_unlike_gpus(const std::vector<Announcement>& announcements) {
  std::vector<allocation::Notice> notices = find_missing(announcements);
  HostsBy<int, std::greater<>> groups;
  std::int64_t world = 0;
  for (const Announcement& each : announcements) {
    if (!each.counted) return notices;
    world += each.workers;
    add_host(groups, each.workers, each);
  }
  if (groups.size() < 2) return notices;
  std::vector<std::string> parts;
  for (const auto& [workers, hosts] : groups) {
    if (parts.size() == k_groups_shown) break;
    parts.push_back(fmt::format("{} on {}", workers, allocation::compress_hostlist(hosts)));
  }
  if (groups.size() > parts.size()) parts.push_back(fmt::format("{} more", groups.size() - parts.size()));
  notices.push_back({fmt::format("the nodes start different numbers of workers: {} (world size {})",
                                 join(parts, ", "), world),
                     "each node starts one worker for each GPU it sees; --nproc-per-node N sets the number"});
  return notices;
}

}  // namespace ddprun::plan
