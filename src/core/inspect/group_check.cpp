#include "inspect/group_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::inspect {

namespace {

using Calls = std::map<std::int64_t, const Collective*>;  // calls of a rank, by number

struct Group {
  std::string name;
  std::set<int> members{};
  std::map<int, Calls> calls{};  // calls of each rank
};

struct Finding {
  bool fault = false;
  std::string text;
};

std::string name_of(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + facts::render_cpu_list(ranks);
}

// The group is named once, before its calls.
std::string name_of(Collective call) {
  call.group.clear();
  return describe(call);
}

std::map<std::string, Group> find_groups(const std::vector<RankHistory>& histories) {
  std::map<std::string, Group> groups;
  for (const RankHistory& history : histories) {
    for (const auto& [key, call] : history.calls) {
      Group& group = groups[key];
      group.name = call.group;
      group.members.insert(history.rank);
      group.calls[history.rank][call.sequence] = &call;
    }
  }
  for (const RankHistory& history : histories) {
    for (auto& [key, group] : groups) {
      if (is_default_group(group.name)) group.members.insert(history.rank);
      const auto known = std::ranges::find(history.members, key, &GroupMembers::group);
      if (known == history.members.end()) continue;
      const auto ranks = facts::parse_cpu_list(known->ranks).value_or(std::vector<int>());
      group.members.insert(ranks.begin(), ranks.end());
    }
  }
  return groups;
}

bool has_free_sizes(const std::string& operation) {
  if (operation.find("all_to_all") != std::string::npos || operation.find("alltoall") != std::string::npos)
    return true;
  const bool lists =
      operation.find("gather") != std::string::npos || operation.find("scatter") != std::string::npos;
  return lists && operation.find("base") == std::string::npos &&
         operation.find("tensor") == std::string::npos;
}

// A call by what has to be the same on all ranks.
std::string kind_of(const Collective& call) {
  Collective kind = call;
  if (has_free_sizes(call.operation)) kind.sizes.clear();
  return name_of(kind);
}

// Returns the calls of the first number of which they differ.
Finding find_difference(const Group& group) {
  std::map<std::int64_t, std::map<std::string, std::vector<int>>> kinds;
  for (const auto& [rank, calls] : group.calls) {
    for (const auto& [number, call] : calls) kinds[number][kind_of(*call)].push_back(rank);
  }
  const auto differs =
      std::ranges::find_if(kinds, [](const auto& of_number) { return of_number.second.size() > 1; });
  if (differs == kinds.end()) return {};
  std::vector<std::string> texts;
  for (const auto& [kind, ranks] : differs->second)
    texts.push_back(fmt::format("{} by {}", kind, name_of(ranks)));
  return {true, "calls differ: " + join(texts, ", ")};
}

// Returns where ranks wait, and who is missing there.
Finding find_missing(const Group& group) {
  std::map<std::int64_t, std::pair<const Collective*, std::vector<int>>> waits;
  for (const auto& [rank, calls] : group.calls) {
    const auto pending = std::ranges::find_if(calls, [](const auto& call) { return call.second->pending; });
    if (pending == calls.end()) continue;
    waits[pending->first].first = pending->second;
    waits[pending->first].second.push_back(rank);
  }
  Finding found;
  for (const auto& [number, wait] : waits) {
    std::map<std::string, std::vector<int>> missing;  // ranks by what they did last
    for (const int member : group.members) {
      const auto calls = group.calls.find(member);
      const bool none = calls == group.calls.end();
      if (none || calls->second.rbegin()->first < number)
        missing[none ? "no record" : fmt::format("last #{}", calls->second.rbegin()->first)].push_back(
            member);
    }
    std::vector<std::string> texts;
    for (const auto& [last, ranks] : missing) texts.push_back(fmt::format("{} ({})", name_of(ranks), last));
    if (found.text.empty() || !texts.empty())
      found = {
          !texts.empty(),
          fmt::format("{} in {}{}{}", name_of(wait.second) + (wait.second.size() == 1 ? " waits" : " wait"),
                      name_of(*wait.first), texts.empty() ? "" : ", missing: ", join(texts, ", "))};
    if (found.fault) break;
  }
  return found;
}

std::string describe_ends(const Group& group) {
  std::map<std::int64_t, std::vector<int>> ends;
  for (const auto& [rank, calls] : group.calls) ends[calls.rbegin()->first].push_back(rank);
  std::vector<std::string> texts;
  for (const auto& [number, ranks] : ends)
    texts.push_back(
        fmt::format("{} {} completed #{}", name_of(ranks), ranks.size() == 1 ? "has" : "have", number));
  return join(texts, ", ");
}

}  // namespace

std::vector<std::string> check_groups(const std::vector<RankHistory>& histories) {
  std::vector<std::string> faults, others;
  for (const auto& [key, group] : find_groups(histories)) {
    const Finding difference = find_difference(group), missing = find_missing(group);
    std::vector<std::string> texts;
    for (const Finding& each : {difference, missing}) {
      if (!each.text.empty()) texts.push_back(each.text);
    }
    if (texts.empty()) texts.push_back(describe_ends(group));
    const std::string name =
        is_default_group(group.name) ? "default group" : "group " + printable(group.name, 64);
    const std::string line = fmt::format(
        "{} ({}): {}", name, name_of({group.members.begin(), group.members.end()}), join(texts, "; "));
    (difference.fault || missing.fault ? faults : others).push_back(line);
  }
  faults.insert(faults.end(), others.begin(), others.end());
  return faults;
}

}  // namespace ddprun::inspect
