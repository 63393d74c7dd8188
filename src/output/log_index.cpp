#include "ddprun/output/log_index.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

namespace ddprun {

namespace {

using Json = nlohmann::ordered_json;

constexpr int k_format = 1;

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json entry_json(const LogIndexEntry& entry) {
  Json json;
  json["attempt"] = entry.attempt.value;
  json["rank"] = entry.rank.value;
  json["local_rank"] = entry.local_rank.value;
  json["host"] = entry.host;
  json["pid"] = entry.pid == 0 ? Json() : Json(entry.pid);
  json["exit_code"] = entry.exit_code ? Json(*entry.exit_code) : Json();
  json["signal"] = or_null(entry.signal);
  json["stdout"] = or_null(entry.output);
  json["stderr"] = or_null(entry.error);
  return json;
}

std::string render(const std::string& launch_id, Json workers) {
  Json json;
  json["format"] = k_format;
  json["launch"] = launch_id;
  json["workers"] = std::move(workers);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Nothing unless it is of this launch.
std::optional<Json> read_workers(const std::string& launch_id, const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("launch") || json["launch"] != launch_id) return std::nullopt;
  if (!json.contains("workers") || !json["workers"].is_array()) return std::nullopt;
  return json["workers"];
}

}  // namespace

std::string render_index_part(const std::string& launch_id, const std::vector<LogIndexEntry>& entries) {
  Json workers = Json::array();
  for (const LogIndexEntry& entry : entries) workers.push_back(entry_json(entry));
  return render(launch_id, std::move(workers));
}

std::string merge_index_parts(const std::string& launch_id, const std::vector<std::string>& parts) {
  std::vector<Json> all;
  for (const std::string& part : parts) {
    const auto workers = read_workers(launch_id, part);
    if (workers) all.insert(all.end(), workers->begin(), workers->end());
  }
  const auto place = [](const Json& worker) {
    return std::tuple(worker.value("attempt", 0), worker.value("rank", 0));
  };
  std::sort(all.begin(), all.end(), [&](const Json& a, const Json& b) { return place(a) < place(b); });
  return render(launch_id, all);
}

bool is_index_of(const std::string& launch_id, const std::string& text) {
  return read_workers(launch_id, text).has_value();
}

}  // namespace ddprun
