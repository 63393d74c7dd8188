#include "profile/rank_profile.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "output/line_folder.hpp"
#include "status/json_values.hpp"
#include "status/module_answer.hpp"

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

namespace {

using OrderedJson = nlohmann::ordered_json;

// Calls the visitor with each thread, its rank and its name, the main threads first.
template <class Visit>
void for_threads(const JobProfile& job, const Visit& visit) {
  for (const bool main : {true, false}) {
    for (const RankProfile& rank : job.ranks) {
      for (const ThreadProfile& thread : rank.threads) {
        const std::string of = main ? "" : ", thread " + printable(thread.name, 64);
        if (thread.main == main)
          visit(rank, thread, fmt::format("rank {} on {}{}", rank.rank, printable(rank.host, 64), of));
      }
    }
  }
}

// Returns "step (train.py:44)", without the separators of the format.
std::string collapsed(const status::Frame& frame) {
  const std::string file = frame.file.substr(frame.file.rfind('/') + 1);
  std::string text = printable(fmt::format("{} ({}:{})", frame.function, file, frame.line), 400);
  std::ranges::replace(text, ';', ',');
  return text;
}

}  // namespace

std::string render_speedscope(const JobProfile& job, const std::string& name) {
  OrderedJson frames = OrderedJson::array(), profiles = OrderedJson::array();
  std::map<std::tuple<std::string, int, std::string>, std::size_t> indices;  // frames of all ranks, each once
  for_threads(job, [&](const RankProfile& rank, const ThreadProfile& thread, const std::string& title) {
    OrderedJson samples = OrderedJson::array(), weights = OrderedJson::array();
    std::vector<std::vector<std::size_t>> stacks;
    std::int64_t sum = 0;
    for (const Call& call : thread.calls) {
      const auto& [file, line, function] = rank.frames[static_cast<std::size_t>(call.frame)];
      const auto [index, is_new] = indices.try_emplace({file, line, function}, indices.size());
      if (is_new) frames.push_back({{"name", function}, {"file", file}, {"line", line}});
      auto stack =
          call.caller < 0 ? std::vector<std::size_t>() : stacks[static_cast<std::size_t>(call.caller)];
      stack.push_back(index->second);
      stacks.push_back(std::move(stack));
      if (call.microseconds == 0) continue;
      samples.push_back(stacks.back());
      weights.push_back(call.microseconds);
      sum += call.microseconds;
    }
    profiles.push_back({{"type", "sampled"},
                        {"name", title},
                        {"unit", "microseconds"},
                        {"startValue", 0},
                        {"endValue", sum},
                        {"samples", std::move(samples)},
                        {"weights", std::move(weights)}});
  });
  return write_json_text(OrderedJson{{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                                     {"name", name},
                                     {"exporter", "ddprun"},
                                     {"activeProfileIndex", 0},
                                     {"shared", {{"frames", std::move(frames)}}},
                                     {"profiles", std::move(profiles)}}) +
         "\n";
}

std::string render_collapsed(const JobProfile& job) {
  std::string text;
  for_threads(job, [&](const RankProfile& rank, const ThreadProfile& thread, std::string root) {
    std::ranges::replace(root, ';', ',');
    std::vector<std::string> stacks;
    for (const Call& call : thread.calls) {
      const std::string& caller = call.caller < 0 ? root : stacks[static_cast<std::size_t>(call.caller)];
      stacks.push_back(caller + ";" + collapsed(rank.frames[static_cast<std::size_t>(call.frame)]));
      if (call.microseconds > 0) text += fmt::format("{} {}\n", stacks.back(), call.microseconds);
    }
  });
  return text;
}

namespace {

constexpr double k_differs = 0.1, k_least_shown = 0.005;
constexpr std::size_t k_most_places = 15, k_most_differences = 10, k_most_unseen = 16;

struct Place {
  std::vector<double> shares;  // shares of all ranks
  std::map<int, double> lines;
  double mean = 0;
};

using Places = std::map<std::pair<std::string, std::string>, Place>;  // keyed by file and function

// Adds a rank's shares of its main thread. False without samples.
bool add_rank(Places& places, const RankProfile& rank, std::size_t index) {
  const auto thread = std::ranges::find_if(rank.threads, &ThreadProfile::main);
  if (thread == rank.threads.end()) return false;
  std::int64_t sum = 0;
  for (const Call& call : thread->calls) sum += call.microseconds;
  std::vector<const status::Frame*> own;  // innermost own call of each call's stack
  for (const Call& call : thread->calls) {
    const status::Frame& frame = rank.frames[static_cast<std::size_t>(call.frame)];
    own.push_back(status::is_own(frame) ? &frame
                  : call.caller < 0     ? nullptr
                                        : own[static_cast<std::size_t>(call.caller)]);
    if (call.microseconds == 0) continue;
    const status::Frame& at = own.back() != nullptr ? *own.back() : frame;
    Place& place = places[{at.file, at.function}];
    const double share = static_cast<double>(call.microseconds) / static_cast<double>(sum);
    place.shares.resize(index + 1);
    place.shares[index] += share;
    place.lines[at.line] += share;
  }
  return sum > 0;
}

std::string name_of(const Places::value_type& place) {
  const auto line =
      std::ranges::max_element(place.second.lines, {}, [](const auto& each) { return each.second; });
  return status::describe(status::Frame{place.first.first, line->first, place.first.second});
}

long percent(double share) { return std::lround(100 * share); }

// Returns "rank 5: 31 % at data.py:88 in decode; the others 4 %", by how much it is more; empty: none
// differs.
std::pair<double, std::string> find_difference(const Places::value_type& place,
                                               const std::vector<int>& ranks) {
  const std::vector<double>& shares = place.second.shares;
  std::vector<double> sorted = shares;
  std::ranges::sort(sorted);
  const double usual = sorted[(sorted.size() - 1) / 2], most = sorted.back();
  std::vector<int> named;
  double least = most, others = place.second.mean * static_cast<double>(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (shares[i] - usual <= k_differs) continue;
    named.push_back(ranks[i]);
    least = std::min(least, shares[i]);
    others -= shares[i];
  }
  if (named.empty()) return {};
  const auto rest = static_cast<double>(ranks.size() - named.size());
  const std::string range = percent(least) == percent(most) ? "" : fmt::format("{} to ", percent(least));
  return {most - usual,
          fmt::format("{} {}: {}{} % at {}; the others {} %\n", named.size() == 1 ? "rank" : "ranks",
                      output::describe_rank_list(named), range, percent(most), name_of(place),
                      percent(std::max(others, 0.0) / rest))};
}

// Sorts texts by their numbers, the highest first, and joins the first `most`.
std::string join_most(std::vector<std::pair<double, std::string>> texts, std::size_t most) {
  std::ranges::stable_sort(texts, std::greater(), [](const auto& each) { return each.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(texts.size(), most); ++i) text += texts[i].second;
  return text;
}

std::string render_places(const Places& places, const std::vector<int>& ranks) {
  std::vector<std::pair<double, std::string>> differences, rows;
  for (const auto& place : places) {
    const auto [least, most] = std::ranges::minmax(place.second.shares);
    differences.push_back(find_difference(place, ranks));
    if (place.second.mean < k_least_shown) continue;
    rows.emplace_back(place.second.mean,
                      fmt::format("{:>3} %  {:>3} %  {:>3} %  {}\n", percent(place.second.mean),
                                  percent(least), percent(most), name_of(place)));
  }
  const std::string text = join_most(std::move(differences), k_most_differences);
  return text + (text.empty() ? "" : "\n") +
         fmt::format("{:>5}  {:>5}  {:>5}  PLACE\n", "MEAN", "LEAST", "MOST") +
         join_most(std::move(rows), k_most_places);
}

}  // namespace

std::string render_table(const JobProfile& job) {
  Places places;
  std::vector<int> ranks;
  std::string unseen;
  std::size_t count = 0;
  for (const RankProfile& rank : job.ranks) {
    if (add_rank(places, rank, ranks.size())) {
      ranks.push_back(rank.rank);
    } else if (++count <= k_most_unseen) {
      unseen += fmt::format("rank {} on {} (pid {}) is not in it: {}\n", rank.rank, printable(rank.host, 64),
                            rank.pid, printable(rank.unseen.empty() ? "no samples" : rank.unseen, 160));
    }
  }
  if (count > k_most_unseen) unseen += fmt::format("{} more ranks are not in it\n", count - k_most_unseen);
  if (!job.silent.empty())
    unseen += fmt::format("no answer from {}\n", printable(join(job.silent, ", "), 4096));
  for (auto& [at, place] : places) {
    place.shares.resize(ranks.size());
    for (const double share : place.shares) place.mean += share / static_cast<double>(ranks.size());
  }
  return ranks.empty() ? unseen : render_places(places, ranks) + unseen;
}

}  // namespace ddprun::profile
