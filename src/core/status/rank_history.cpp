#include "status/rank_history.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "status/flight_record.hpp"
#include "status/json_values.hpp"

namespace ddprun::status {

namespace {

using Json = nlohmann::json;

void add_members(RankHistory& history, const std::string& group, std::string ranks) {
  std::erase_if(ranks, [](char each) { return each == ' ' || each == '[' || each == ']'; });
  const auto members = facts::parse_cpu_list(ranks);
  if (members && !members->empty()) history.members.push_back({group, facts::render_cpu_list(*members)});
}

}  // namespace

std::optional<RankHistory> parse_history(int rank, std::string_view record, std::string_view module,
                                         std::int64_t now, std::size_t most) {
  const Json json = read_flight_record(record), answer = read_json_text(module);
  if (!json.is_object()) return std::nullopt;
  RankHistory history{rank};
  std::vector<const Json*> entries = entries_in(json);
  std::erase_if(entries, [](const Json* entry) { return flag_in(*entry, "is_p2p"); });
  for (std::size_t i = entries.size() - std::min(most, entries.size()); i < entries.size(); ++i)
    history.calls.push_back({process_group_in(*entries[i]), read_collective(*entries[i], now)});
  if (const auto groups = json.find("pg_config"); groups != json.end() && groups->is_object()) {
    for (const auto& [name, group] : groups->items())
      if (group.is_object()) add_members(history, name.empty() ? "0" : name, text_in(group, "ranks"));
  }
  for (const Json& group : list_in(answer, "groups")) {
    if (group.is_object()) add_members(history, text_in(group, "name"), text_in(group, "ranks"));
  }
  return history;
}

std::optional<Collective> find_place(const RankHistory& history) {
  if (history.calls.empty()) return std::nullopt;
  const auto pending =
      std::ranges::find_if(history.calls, [](const Recorded& each) { return each.collective.pending; });
  const auto& [group, call] = pending == history.calls.end() ? history.calls.back() : *pending;
  Collective place = call;
  const auto members = std::ranges::find(history.members, group, &GroupMembers::group);
  if (members != history.members.end() && !is_default_group(place.group)) place.members = members->ranks;
  return place;
}

void describe_history(OrderedFields& fields, RankHistory& history) {
  fields.value("rank", history.rank);
  fields.value(
      "calls", history.calls, OrderedFields::k_unlimited, +[](OrderedFields& call, Recorded& recorded) {
        call.value("process_group", recorded.group);
        call.value("collective", recorded.collective, describe_collective);
      });
  fields.optional(
      "members", history.members, OrderedFields::k_unlimited,
      +[](OrderedFields& group, GroupMembers& members) {
        group.value("process_group", members.group);
        group.value("ranks", members.ranks);
      });
}

std::string name_ranks(const std::vector<int>& ascending) {
  return (ascending.size() == 1 ? "rank " : "ranks ") + facts::render_cpu_list(ascending);
}

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
