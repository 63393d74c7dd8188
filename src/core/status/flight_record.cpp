#include "status/flight_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "status/json_values.hpp"

namespace ddprun::status {

namespace {

using Json = nlohmann::json;

constexpr std::size_t k_most_shapes = 4;

bool is_completed(const Json& entry) {
  return flag_in(entry, "retired") || text_in(entry, "state") == "completed";
}

std::string shape_of(const Json& sizes) {
  std::vector<std::string> lengths;
  for (const Json& length : sizes) {
    if (length.is_number_integer()) lengths.push_back(fmt::format("{}", length.get<std::int64_t>()));
  }
  return lengths.empty() ? "scalar" : join(lengths, "x");
}

// Returns "1000 float, 4x4 half".
std::string describe_sizes(const Json& entry) {
  const auto sizes = entry.find("input_sizes");
  const auto types = entry.find("input_dtypes");
  if (sizes == entry.end() || !sizes->is_array()) return {};
  std::vector<std::string> shapes;
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    if (i == k_most_shapes) {
      shapes.emplace_back("...");
      break;
    }
    if (!(*sizes)[i].is_array()) continue;
    const bool typed =
        types != entry.end() && types->is_array() && i < types->size() && (*types)[i].is_string();
    shapes.push_back(shape_of((*sizes)[i]) + (typed ? " " + to_lower((*types)[i].get<std::string>()) : ""));
  }
  return join(shapes, ", ").substr(0, k_most_text);
}

std::string group_of(const Json& entry) {
  const Json& group = list_in(entry, "process_group");
  if (group.size() != 2) return {};
  const auto text = [](const Json& part) { return part.is_string() ? part.get<std::string>() : ""; };
  return name_of_group(text(group[0]), text(group[1]));
}

}  // namespace

std::string operation_in(const Json& entry) {
  const std::string name = text_in(entry, "profiling_name");
  return name.substr(name.find(':') + 1);
}

std::string process_group_in(const Json& entry) {
  const Json& group = list_in(entry, "process_group");
  return !group.empty() && group[0].is_string() ? group[0].get<std::string>().substr(0, k_most_text) : "";
}

Collective read_collective(const Json& entry, std::int64_t now) {
  Collective collective;
  collective.operation = operation_in(entry);
  collective.group = group_of(entry);
  collective.sequence = number_in(entry, flag_in(entry, "is_p2p") ? "p2p_seq_id" : "collective_seq_id");
  collective.sizes = describe_sizes(entry);
  collective.pending = !is_completed(entry);
  const std::int64_t created = number_in(entry, "time_created_ns");
  collective.age = Milliseconds{created > 0 && created < now ? (now - created) / 1'000'000 : 0};
  return collective;
}

std::string name_of_group(const std::string& name, const std::string& description) {
  return description.empty() || description == "undefined" ? name : description;
}

Json read_flight_record(std::string_view text) {
  Json json = is_pickle(text) ? read_pickle(text) : read_json_text(text);
  const auto is_object = [](const Json& entry) { return entry.is_object(); };
  const bool good = json.is_object() && json.contains("entries") && json["entries"].is_array() &&
                    std::ranges::all_of(json["entries"], is_object);
  if (!good) json = Json(Json::value_t::discarded);
  return json;
}

std::vector<const Json*> entries_in(const Json& record) {
  std::vector<const Json*> entries;
  for (const Json& entry : list_in(record, "entries")) entries.push_back(&entry);
  std::ranges::stable_sort(entries, {}, [](const Json* entry) { return number_in(*entry, "record_id"); });
  return entries;
}

std::optional<Collective> parse_flight_record(std::string_view text, std::int64_t unix_nanoseconds) {
  const Json json = read_flight_record(text);
  const auto entries = entries_in(json);
  if (entries.empty()) return std::nullopt;
  const auto pending =
      std::ranges::find_if_not(entries, [](const Json* each) { return is_completed(*each); });
  return read_collective(pending == entries.end() ? *entries.back() : **pending, unix_nanoseconds);
}

}  // namespace ddprun::status
