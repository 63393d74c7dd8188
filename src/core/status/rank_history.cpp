#include "status/rank_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_text.hpp"
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

}  // namespace ddprun::status
