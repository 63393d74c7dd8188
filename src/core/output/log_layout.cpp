#include "output/log_layout.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

namespace ddprun::output {

namespace {

constexpr int k_kept = 5;
constexpr std::int64_t k_most_kept = 1000;
constexpr std::int64_t k_least_size = 1024;
constexpr std::int64_t k_least_store = 1024 * 1024;
constexpr std::int64_t k_most_size = std::int64_t{1} << 50;

// Parses "100M"; nullopt for anything else.
std::optional<std::int64_t> parse_size(std::string text) {
  const std::string units = "kmgt";
  int shift = 0;
  if (!text.empty()) {
    const std::size_t unit = units.find(to_lower(text.substr(text.size() - 1)));
    if (unit != std::string::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      text.pop_back();
    }
  }
  const auto number = parse_integer(text);
  if (!number || *number < 0 || *number > (k_most_size >> shift)) return std::nullopt;
  return *number << shift;
}

}  // namespace

LogRotation parse_rotation(const std::string& text, const std::string& origin) {
  const std::size_t colon = text.find(':');
  const auto size = parse_size(text.substr(0, colon));
  const auto kept = colon == std::string::npos ? k_kept : parse_integer(text.substr(colon + 1));
  if (!size || *size < k_least_size || !kept || *kept < 0 || *kept > k_most_kept) {
    throw UsageError(fmt::format("{} is not a size of log files: '{}'", origin, printable(text)),
                     "give a size of 1k or more and the number of older files to keep, as in 100M:5");
  }
  return {static_cast<std::uint64_t>(*size), static_cast<int>(*kept)};
}

std::uint64_t parse_rate(const std::string& text, const std::string& origin) {
  const auto size = parse_size(text);
  if (!size || *size < k_least_size)
    throw UsageError(fmt::format("{} is not a size: '{}'", origin, printable(text)),
                     "give bytes per second, 1k or more, as in 1M");
  return static_cast<std::uint64_t>(*size);
}

std::uint64_t parse_memory(const std::string& text, const std::string& origin) {
  const auto size = parse_size(text);
  if (!size || *size < k_least_store)
    throw UsageError(fmt::format("{} is not a memory size: '{}'", origin, printable(text)),
                     "give 1M or more, as in 512M or 2G");
  return static_cast<std::uint64_t>(*size);
}

LogLayout layout_of(const OutputOptions& options) {
  return options.logs.value.empty() ? LogLayout::torchrun : LogLayout::ranks;
}

std::string folder_name(const std::string& run_id) {
  std::string name = run_id;
  std::ranges::replace(name, '/', '_');
  if (name.empty() || name == "." || name == ".." || name == "latest") name += "_";
  return name;
}

std::string attempt_folder_name(LogLayout layout, Attempt attempt) {
  return fmt::format("attempt{}{}", layout == LogLayout::torchrun ? '_' : '-', attempt.value);
}

std::string log_file_name(LogLayout layout, LocalRank local_rank, GlobalRank rank, Stream stream) {
  const bool output = stream == Stream::output;
  if (layout == LogLayout::torchrun)
    return fmt::format("{}/{}.log", local_rank.value, output ? "stdout" : "stderr");
  return fmt::format("rank-{:05}.{}", rank.value, output ? "out" : "err");
}

std::string stack_record_name(LogLayout layout, LocalRank local_rank, GlobalRank rank) {
  return layout == LogLayout::torchrun ? fmt::format("{}/stacks.txt", local_rank.value)
                                       : fmt::format("rank-{:05}.stacks", rank.value);
}

std::string stack_dump_name(GlobalRank first) { return fmt::format("stacks/rank-{:05}", first.value); }

std::string kept_suffix(const OutputOptions& options) { return options.compress ? ".zst" : ""; }

std::string filtered_file_name(Stream stream) {
  return stream == Stream::output ? "filtered_stdout.log" : "filtered_stderr.log";
}

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
