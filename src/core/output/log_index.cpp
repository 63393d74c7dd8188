#include "output/log_index.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_number.hpp"
#include "base/json_text.hpp"

namespace ddprun::output {

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
  return write_json_text(json, 1) + "\n";
}

// Returns nullopt unless the text is of this launch.
std::optional<Json> read_workers(const std::string& launch_id, const std::string& text) {
  const Json json = read_ordered_json_text(text);
  if (!json.is_object() || !json.contains("launch") || json["launch"] != launch_id) return std::nullopt;
  if (!json.contains("workers") || !json["workers"].is_array()) return std::nullopt;
  return json["workers"];
}

// Returns its attempt and rank; nullopt for JSON that is no entry.
std::optional<std::pair<int, int>> place_of(const Json& worker) {
  if (!worker.is_object() || !worker.contains("attempt") || !worker.contains("rank")) return std::nullopt;
  const auto attempt = whole_number<int>(worker["attempt"]);
  const auto rank = whole_number<int>(worker["rank"]);
  return attempt && rank ? std::optional(std::pair(*attempt, *rank)) : std::nullopt;
}

}  // namespace

std::string render_index_part(const std::string& launch_id, const std::vector<LogIndexEntry>& entries) {
  Json workers = Json::array();
  for (const LogIndexEntry& entry : entries) workers.push_back(entry_json(entry));
  return render(launch_id, std::move(workers));
}

std::string merge_index_parts(const std::string& launch_id, const std::vector<std::string>& parts) {
  std::vector<std::pair<std::pair<int, int>, Json>> all;
  for (const std::string& part : parts) {
    const auto workers = read_workers(launch_id, part);
    if (!workers) continue;
    for (const Json& worker : *workers) {
      if (const auto place = place_of(worker)) all.emplace_back(*place, worker);
    }
  }
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first < b.first; });
  Json workers = Json::array();
  for (auto& [place, worker] : all) workers.push_back(std::move(worker));
  return render(launch_id, std::move(workers));
}

bool is_index_of(const std::string& launch_id, const std::string& text) {
  return read_workers(launch_id, text).has_value();
}

}  // namespace ddprun::output
