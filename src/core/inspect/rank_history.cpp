#include "inspect/rank_history.hpp"

#include <algorithm>
#include <utility>

#include "base/json_text.hpp"
#include "facts/proc_text.hpp"
#include "inspect/flight_record.hpp"
#include "inspect/json_values.hpp"

namespace ddprun::inspect {

namespace {

using Json = nlohmann::json;

constexpr const char* k_default_group = "0";

void add_members(RankHistory& history, const std::string& group, std::string ranks) {
  std::erase_if(ranks, [](char each) { return each == ' ' || each == '[' || each == ']'; });
  const auto members = facts::parse_cpu_list(ranks);
  if (members && !members->empty()) history.members.push_back({group, facts::render_cpu_list(*members)});
}

void describe_recorded(OrderedFields& fields, Recorded& recorded) {
  fields.value("process_group", recorded.group);
  fields.value("collective", recorded.collective, describe_collective);
}

void describe_members(OrderedFields& fields, GroupMembers& members) {
  fields.value("process_group", members.group);
  fields.value("ranks", members.ranks);
}

}  // namespace

std::optional<RankHistory> parse_history(int rank, std::string_view record, std::string_view module,
                                         std::int64_t now, std::size_t most) {
  const Json json = read_flight_record(record);
  if (!json.is_object()) return std::nullopt;
  std::vector<const Json*> entries;
  for (const Json& entry : list_in(json, "entries")) {
    if (!flag_in(entry, "is_p2p")) entries.push_back(&entry);
  }
  std::ranges::sort(entries, {}, [](const Json* entry) { return number_in(*entry, "record_id"); });
  entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(std::min(most, entries.size())));
  RankHistory history{rank};
  for (const Json* const entry : entries)
    history.calls.push_back({process_group_in(*entry), read_collective(*entry, now)});
  if (const auto groups = json.find("pg_config"); groups != json.end() && groups->is_object()) {
    for (const auto& [name, group] : groups->items()) {
      if (group.is_object())
        add_members(history, name.empty() ? k_default_group : name, text_in(group, "ranks"));
    }
  }
  const Json answer = read_json_text(module);
  for (const Json& group : list_in(answer, "groups")) {
    if (group.is_object()) add_members(history, text_in(group, "name"), text_in(group, "ranks"));
  }
  return history;
}

std::optional<Collective> find_place(const RankHistory& history) {
  if (history.calls.empty()) return std::nullopt;
  const auto pending =
      std::ranges::find_if(history.calls, [](const Recorded& each) { return each.collective.pending; });
  const Recorded& found = pending == history.calls.end() ? history.calls.back() : *pending;
  Collective place = found.collective;
  const auto members = std::ranges::find(history.members, found.group, &GroupMembers::group);
  if (members != history.members.end() && !is_default_group(place.group)) place.members = members->ranks;
  return place;
}

void describe_history(OrderedFields& fields, RankHistory& history) {
  fields.value("rank", history.rank);
  fields.value("calls", history.calls, OrderedFields::k_unlimited, describe_recorded);
  fields.optional("members", history.members, OrderedFields::k_unlimited, describe_members);
}

}  // namespace ddprun::inspect
