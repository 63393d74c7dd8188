#include "profile/rank_profile.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/json_number.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "inspect/json_values.hpp"

namespace ddprun::profile {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t k_all_ranks = std::int64_t{48} << 20;
constexpr std::int64_t k_longest = 1'000'000'000'000;  // microseconds
constexpr std::size_t k_most_calls = 8192, k_most_hosts = 65536, k_most_threads = 32;
constexpr int k_deepest = 256;

std::optional<int> number_below(const Json& json, std::int64_t least, std::size_t end) {
  const auto number = whole_number<std::int64_t>(json);
  if (!number || *number < least || *number >= static_cast<std::int64_t>(end)) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<inspect::Frame> parse_frame(const Json& json) {
  if (!json.is_array() || json.size() != 3 || !json[0].is_string() || !json[2].is_string())
    return std::nullopt;
  const auto line = number_below(json[1], 0, 1 << 30);
  if (!line) return std::nullopt;
  return inspect::Frame{json[0].get<std::string>(), *line, json[2].get<std::string>()};
}

// Reads [caller, frame, microseconds, caller, ...].
std::optional<std::vector<Call>> parse_calls(const Json& json, std::size_t frames) {
  if (json.size() % 3 != 0 || json.size() / 3 > k_most_calls) return std::nullopt;
  std::vector<Call> calls;
  std::vector<int> depths;
  for (std::size_t i = 0; i < json.size(); i += 3) {
    const auto caller = number_below(json[i], -1, calls.size());
    const auto frame = number_below(json[i + 1], 0, frames);
    const auto time = whole_number<std::int64_t>(json[i + 2]);
    if (!caller || !frame || !time || *time < 0 || *time > k_longest) return std::nullopt;
    depths.push_back(*caller < 0 ? 1 : depths[static_cast<std::size_t>(*caller)] + 1);
    if (depths.back() > k_deepest) return std::nullopt;
    calls.push_back({*caller, *frame, *time});
  }
  return calls;
}

bool parse_answer(RankProfile& rank, const std::string& answer) {
  const Json json = read_json_text(answer);
  if (!json.is_object()) return false;
  for (const Json& each : inspect::list_in(json, "frames")) {
    auto frame = parse_frame(each);
    if (!frame) return false;
    rank.frames.push_back(std::move(*frame));
  }
  for (const Json& each : inspect::list_in(json, "threads")) {
    if (!each.is_object() || rank.threads.size() == k_most_threads) return false;
    auto calls = parse_calls(inspect::list_in(each, "calls"), rank.frames.size());
    if (!calls) return false;
    rank.threads.push_back(
        {inspect::text_in(each, "name"), inspect::flag_in(each, "main"), std::move(*calls)});
  }
  return !rank.threads.empty();
}

RankProfile parse_rank(const Json& json) {
  RankProfile rank{inspect::number_in<int>(json, "rank"), inspect::text_in(json, "host"),
                   inspect::number_in<int>(json, "pid"), inspect::text_in(json, "unseen")};
  const auto answer = json.find("answer");
  if (!rank.unseen.empty()) return rank;
  if (answer == json.end() || !answer->is_string() || !parse_answer(rank, answer->get<std::string>()))
    return {rank.rank, rank.host, rank.pid, "its answer is no profile"};
  return rank;
}

}  // namespace

int answer_limit(int ranks) {
  return static_cast<int>(
      std::clamp<std::int64_t>(k_all_ranks / std::max(ranks, 1), k_least_answer, k_most_answer));
}

std::string render_rank(int rank, const std::string& host, int pid, const std::string& unseen,
                        std::string_view answer) {
  Json json{{"rank", rank}, {"host", host}, {"pid", pid}};
  if (unseen.empty()) json["answer"] = answer.substr(0, k_most_answer);
  if (!unseen.empty()) json["unseen"] = unseen;
  return write_json_text(json);
}

std::string render_asked(const std::vector<std::string>& hosts) {
  return write_json_text(Json{{"hosts", hosts}});
}

std::string render_answered(const std::string& host) { return write_json_text(Json{{"answered", host}}); }

JobProfile parse_job(std::string_view lines) {
  JobProfile job;
  std::set<std::string> silent, answered;
  for (const std::string& line : split(lines, '\n')) {
    const Json json = read_json_text(line);
    if (!json.is_object()) continue;
    if (json.contains("rank")) job.ranks.push_back(parse_rank(json));
    answered.insert(inspect::text_in(json, "answered"));
    for (const Json& host : inspect::list_in(json, "hosts")) {
      if (host.is_string() && silent.size() < k_most_hosts) silent.insert(host.get<std::string>());
    }
  }
  for (const std::string& host : answered) silent.erase(host);
  std::ranges::stable_sort(job.ranks, {}, &RankProfile::rank);
  job.silent.assign(silent.begin(), silent.end());
  return job;
}

}  // namespace ddprun::profile
