#include "profile/rank_profile.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json_number.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "status/json_values.hpp"

namespace ddprun::profile {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t k_all_ranks = std::int64_t{48} << 20;
constexpr std::size_t k_longest = 1'000'000'000'000;  // microseconds
constexpr std::size_t k_most_calls = 8192, k_most_hosts = 65536, k_most_threads = 32;
constexpr int k_deepest = 256;

// Reads a number from `least` to below `end`; else notes that it is none.
template <class Number = int>
Number read_number(bool& good, const Json& json, std::int64_t least, std::size_t end) {
  const auto number = whole_number<Number>(json);
  good = good && number && std::cmp_greater_equal(*number, least) && std::cmp_less(*number, end);
  return good ? *number : Number{};
}

// Reads {"frames":[[file, line, function], ...],
// "threads":[{"name", "main", "calls":[caller, frame, microseconds, caller, ...]}, ...]}.
bool parse_answer(RankProfile& rank, const std::string& answer) {
  const Json json = read_json_text(answer);
  bool good = true;
  for (const Json& each : status::list_in(json, "frames")) {
    good = good && each.is_array() && each.size() == 3 && each[0].is_string() && each[2].is_string();
    if (!good) return false;
    rank.frames.push_back(
        {each[0].get<std::string>(), read_number(good, each[1], 0, 1 << 30), each[2].get<std::string>()});
  }
  for (const Json& each : status::list_in(json, "threads")) {
    const Json& calls = status::list_in(each, "calls");
    if (!each.is_object() || rank.threads.size() == k_most_threads || calls.size() % 3 != 0 ||
        calls.size() / 3 > k_most_calls)
      return false;
    ThreadProfile& thread = rank.threads.emplace_back();
    thread.name = status::text_in(each, "name");
    thread.main = status::flag_in(each, "main");
    std::vector<int> depths;
    for (std::size_t i = 0; good && i < calls.size(); i += 3) {
      const int caller = read_number(good, calls[i], -1, depths.size());
      const int frame = read_number(good, calls[i + 1], 0, rank.frames.size());
      thread.calls.push_back({caller, frame, read_number<std::int64_t>(good, calls[i + 2], 0, k_longest)});
      depths.push_back(good && caller >= 0 ? depths[static_cast<std::size_t>(caller)] + 1 : 1);
      good = good && depths.back() <= k_deepest;
    }
  }
  return good && !rank.threads.empty();
}

RankProfile parse_rank(const Json& json) {
  RankProfile rank{status::number_in<int>(json, "rank"), status::text_in(json, "host"),
                   status::number_in<int>(json, "pid"), status::text_in(json, "unseen")};
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
    answered.insert(status::text_in(json, "answered"));
    for (const Json& host : status::list_in(json, "hosts")) {
      if (host.is_string() && silent.size() < k_most_hosts) silent.insert(host.get<std::string>());
    }
  }
  for (const std::string& host : answered) silent.erase(host);
  std::ranges::stable_sort(job.ranks, {}, &RankProfile::rank);
  job.silent.assign(silent.begin(), silent.end());
  return job;
}

}  // namespace ddprun::profile
