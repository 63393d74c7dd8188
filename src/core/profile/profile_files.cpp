#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "profile/rank_profile.hpp"

namespace ddprun::profile {

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

}  // namespace ddprun::profile
