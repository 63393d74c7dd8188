#include "rendezvous/missing_agents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr std::size_t k_most_told = 4;
constexpr std::size_t k_max_sentence = 1000;

bool same_failure(const LaunchFailure& one, const LaunchFailure& other) {
  return one.what == other.what && one.rest == other.rest && one.names_host == other.names_host;
}

// Describes a failure and its hosts. A sentence that names no host is about all of them, unless some are well
// or have another trouble.
std::string describe_group(const LaunchFailure& failure, const std::vector<std::string>& hosts,
                           bool everywhere) {
  const std::string what = printable(failure.what, k_max_sentence);
  const std::string rest = printable(failure.rest, k_max_sentence);
  if (failure.names_host) return fmt::format("{} on {}{}", what, describe_hosts(hosts), rest);
  return everywhere ? what : fmt::format("{}: {}", describe_hosts(hosts), what);
}

}  // namespace

LaunchFailure make_launch_failure(const std::string& what, const std::string& hint, int exit_code,
                                  const std::string& host) {
  const std::string name = " on " + host;
  const std::size_t at = what.find(name + ":");
  if (host.empty() || at == std::string::npos) return {what, {}, false, hint, exit_code};
  return {what.substr(0, at), what.substr(at + name.size()), true, hint, exit_code};
}

report::Cause describe_failed_start(const std::vector<FailedStart>& failed,
                                    const std::vector<std::string>& well) {
  const LaunchFailure& first = failed.front().failure;
  std::vector<std::string> sentences;
  std::vector<std::string> hints;
  for (auto each = failed.begin(); each != failed.end() && sentences.size() < k_most_told; ++each) {
    const auto is_same = [&](const FailedStart& other) { return same_failure(other.failure, each->failure); };
    if (std::any_of(failed.begin(), each, is_same)) continue;
    std::vector<std::string> hosts;
    for (const FailedStart& other : failed) {
      if (is_same(other)) hosts.push_back(other.host);
    }
    const bool everywhere = well.empty() && hosts.size() == failed.size();
    sentences.push_back(describe_group(each->failure, hosts, everywhere));
    const std::string hint = printable(each->failure.hint, k_max_sentence);
    if (!hint.empty()) hints.push_back(everywhere ? hint : describe_hosts(hosts) + ": " + hint);
    const bool is_a_file = each->failure.exit_code == k_exit_not_found;
    if (is_a_file && !well.empty())
      sentences.back() += fmt::format(" (the same path exists on {})", describe_hosts(well));
  }
  report::Cause cause{
      report::Cause::Kind::launcher_failed, {}, 0, failed.front().host, join(sentences, "; ")};
  cause.hint = join(hints, "; ");
  cause.exit_code = first.exit_code;
  return cause;
}

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
