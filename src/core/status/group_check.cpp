#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "status/rank_history.hpp"

namespace ddprun::status {

namespace {

using Calls = std::map<std::int64_t, Collective>;  // calls of a rank, by number

struct Group {
  std::string name;
  std::set<int> members{};
  std::map<int, Calls> calls{};  // calls of each rank, of which there is one
};

struct Finding {
  bool fault = false;
  std::string text;
};

std::map<std::string, Group> find_groups(const std::vector<RankHistory>& histories) {
  std::map<std::string, Group> groups;
  for (const RankHistory& history : histories) {
    for (const auto& [key, call] : history.calls) {
      Group& group = groups[key];
      group.name = call.group;
      group.members.insert(history.rank);
      Collective& kept = group.calls[history.rank][call.sequence] = call;
      kept.group.clear();  // the group is named once, before its calls
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

template <class Ranks, class Describe>
std::string join_ranks(const Ranks& ranks, const Describe& describe) {
  std::vector<std::string> texts;
  for (const auto& [what, those] : ranks) texts.push_back(describe(what, those));
  return join(texts, ", ");
}

// Returns what has to be the same on all ranks.
std::string kind_of(Collective call) {
  const auto has = [&call](const char* part) { return call.operation.find(part) != std::string::npos; };
  const bool lists = (has("gather") || has("scatter")) && !has("base") && !has("tensor");
  if (lists || has("all_to_all") || has("alltoall")) call.sizes.clear();
  return describe(call);
}

// Returns the calls of the first number of which they differ.
Finding find_difference(const Group& group) {
  std::map<std::int64_t, std::map<std::string, std::vector<int>>> kinds;
  for (const auto& [rank, calls] : group.calls) {
    for (const auto& [number, call] : calls) kinds[number][kind_of(call)].push_back(rank);
  }
  const auto differs = std::ranges::find_if(kinds, [](const auto& each) { return each.second.size() > 1; });
  if (differs == kinds.end()) return {};
  return {true, "calls differ: " + join_ranks(differs->second, [](const auto& kind, const auto& ranks) {
                  return fmt::format("{} by {}", kind, name_ranks(ranks));
                })};
}

// Returns where ranks wait, and who is missing there.
Finding find_missing(const Group& group) {
  std::map<std::int64_t, std::pair<Collective, std::vector<int>>> waits;
  for (const auto& [rank, calls] : group.calls) {
    const auto pending = std::ranges::find_if(calls, [](const auto& call) { return call.second.pending; });
    if (pending == calls.end()) continue;
    waits[pending->first].first = pending->second;
    waits[pending->first].second.push_back(rank);
  }
  Finding found;
  for (const auto& [number, wait] : waits) {
    std::map<std::string, std::vector<int>> missing;  // ranks by what they did last
    for (const int member : group.members) {
      const auto calls = group.calls.find(member);
      if (calls == group.calls.end())
        missing["no record"].push_back(member);
      else if (calls->second.rbegin()->first < number)
        missing[fmt::format("last #{}", calls->second.rbegin()->first)].push_back(member);
    }
    if (!found.text.empty() && missing.empty()) continue;
    found.fault = !missing.empty();
    found.text =
        fmt::format("{} {} in {}{}", name_ranks(wait.second), wait.second.size() == 1 ? "waits" : "wait",
                    describe(wait.first), found.fault ? ", missing: " : "") +
        join_ranks(missing, [](const auto& last, const auto& ranks) {
          return fmt::format("{} ({})", name_ranks(ranks), last);
        });
    if (found.fault) break;
  }
  return found;
}

std::string describe_ends(const Group& group) {
  std::map<std::int64_t, std::vector<int>> ends;
  for (const auto& [rank, calls] : group.calls) ends[calls.rbegin()->first].push_back(rank);
  return join_ranks(ends, [](auto number, const auto& ranks) {
    return fmt::format("{} {} completed #{}", name_ranks(ranks), ranks.size() == 1 ? "has" : "have", number);
  });
}

}  // namespace

std::vector<std::string> check_groups(const std::vector<RankHistory>& histories) {
  std::vector<std::string> faults, others;
  for (const auto& [key, group] : find_groups(histories)) {
    const Finding difference = find_difference(group), missing = find_missing(group);
    const char* const both = difference.text.empty() || missing.text.empty() ? "" : "; ";
    std::string text = difference.text + both + missing.text;
    if (text.empty()) text = describe_ends(group);
    const std::string name =
        is_default_group(group.name) ? "default group" : "group " + printable(group.name, 64);
    (difference.fault || missing.fault ? faults : others)
        .push_back(
            fmt::format("{} ({}): {}", name, name_ranks({group.members.begin(), group.members.end()}), text));
  }
  faults.insert(faults.end(), others.begin(), others.end());
  return faults;
}

}  // namespace ddprun::status
