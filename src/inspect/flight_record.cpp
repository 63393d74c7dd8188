#include "inspect/flight_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace ddprun::inspect {

namespace {

using Json = nlohmann::json;

constexpr std::size_t k_most_shapes = 4;

std::int64_t number_at(const Json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::string text_at(const Json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_completed(const Json& entry) {
  const auto retired = entry.find("retired");
  return (retired != entry.end() && retired->is_boolean() && retired->get<bool>()) ||
         text_at(entry, "state") == "completed";
}

std::string shape_of(const Json& sizes) {
  std::vector<std::string> lengths;
  for (const Json& length : sizes) {
    if (length.is_number_integer()) lengths.push_back(fmt::format("{}", length.get<std::int64_t>()));
  }
  return lengths.empty() ? "scalar" : join(lengths, "x");
}

// "1000 float, 4x4 half"
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
  return join(shapes, ", ");
}

std::string group_of(const Json& entry) {
  const auto group = entry.find("process_group");
  if (group == entry.end() || !group->is_array() || group->size() != 2) return {};
  const auto& description = (*group)[1];
  const auto& name = (*group)[0];
  const std::string described = description.is_string() ? description.get<std::string>() : "";
  if (!described.empty() && described != "undefined") return described;
  return name.is_string() ? name.get<std::string>() : "";
}

Collective read(const Json& entry, std::int64_t now) {
  Collective collective;
  const std::string name = text_at(entry, "profiling_name");  // "gloo:all_reduce"
  collective.operation = name.substr(name.find(':') + 1);
  collective.group = group_of(entry);
  const auto p2p = entry.find("is_p2p");
  const bool is_p2p = p2p != entry.end() && p2p->is_boolean() && p2p->get<bool>();
  collective.sequence = number_at(entry, is_p2p ? "p2p_seq_id" : "collective_seq_id");
  collective.sizes = describe_sizes(entry);
  collective.pending = !is_completed(entry);
  const std::int64_t created = number_at(entry, "time_created_ns");
  collective.age = Milliseconds{created > 0 && created < now ? (now - created) / 1'000'000 : 0};
  return collective;
}

}  // namespace

std::optional<Collective> parse_flight_record(std::string_view text, std::int64_t unix_nanoseconds) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto entries = json.find("entries");
  if (entries == json.end() || !entries->is_array() || entries->empty()) return std::nullopt;
  if (std::ranges::any_of(*entries, [](const Json& entry) { return !entry.is_object(); }))
    return std::nullopt;
  // A ring: the newest is not always the last one.
  const auto newer = [](const Json& a, const Json& b) {
    return number_at(a, "record_id") < number_at(b, "record_id");
  };
  const Json* found = nullptr;
  for (const Json& entry : *entries) {
    if (!is_completed(entry) && (found == nullptr || newer(entry, *found))) found = &entry;
  }
  if (found == nullptr) found = &*std::ranges::max_element(*entries, newer);
  return read(*found, unix_nanoseconds);
}

}  // namespace ddprun::inspect
