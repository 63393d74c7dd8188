#include "plan/unlike_python.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "allocation/hostlist.hpp"
#include "base/text.hpp"

namespace ddprun::plan {

namespace {

constexpr std::size_t k_combinations_shown = 4;

using HostsByVersions = std::map<std::string, std::vector<std::string>>;

HostsByVersions group_by_versions(const std::vector<Announcement>& announcements) {
  HostsByVersions groups;
  for (const Announcement& each : announcements) {
    if (each.python.torch.empty()) continue;
    const std::string versions = fmt::format("torch {} with Python {}", printable(each.python.torch, 64),
                                             printable(each.python.version, 16));
    std::vector<std::string>& hosts = groups[versions];
    const std::string host = printable(each.host);
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  return groups;
}

}  // namespace

std::optional<allocation::Notice> find_unlike_python(const std::vector<Announcement>& announcements) {
  const HostsByVersions groups = group_by_versions(announcements);
  if (groups.size() < 2) return std::nullopt;
  std::vector<std::string> parts;
  for (const auto& [versions, hosts] : groups) {
    if (parts.size() == k_combinations_shown) break;
    parts.push_back(fmt::format("{} on {}", versions, allocation::compress_hostlist(hosts)));
  }
  if (groups.size() > parts.size()) parts.push_back(fmt::format("{} more", groups.size() - parts.size()));
  return allocation::Notice{"the nodes have different versions: " + join(parts, ", "),
                            "workers of different torch versions can wait for each other forever: use one "
                            "Python environment on all nodes"};
}

}  // namespace ddprun::plan
