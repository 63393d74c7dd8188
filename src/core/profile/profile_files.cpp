#include "profile/profile_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json_text.hpp"
#include "base/text.hpp"

namespace ddprun::profile {

namespace {

using OrderedJson = nlohmann::ordered_json;

// Calls the visitor with each thread and its rank, the main threads first.
template <class Visit>
void for_threads(const JobProfile& job, const Visit& visit) {
  for (const bool main : {true, false}) {
    for (const RankProfile& rank : job.ranks) {
      for (const ThreadProfile& thread : rank.threads) {
        if (thread.main == main) visit(rank, thread);
      }
    }
  }
}

std::string name_of(const RankProfile& rank, const ThreadProfile& thread) {
  const std::string of = thread.main ? "" : ", thread " + printable(thread.name, 64);
  return fmt::format("rank {} on {}{}", rank.rank, printable(rank.host, 64), of);
}

// Frames of all ranks, each once.
class SharedFrames {
 public:
  std::size_t index_of(const inspect::Frame& frame) {
    const auto [found, is_new] =
        indices_.try_emplace({frame.file, frame.line, frame.function}, indices_.size());
    if (is_new) frames_.push_back({{"name", frame.function}, {"file", frame.file}, {"line", frame.line}});
    return found->second;
  }
  OrderedJson take() { return std::move(frames_); }

 private:
  std::map<std::tuple<std::string, int, std::string>, std::size_t> indices_;
  OrderedJson frames_ = OrderedJson::array();
};

OrderedJson describe(const RankProfile& rank, const ThreadProfile& thread, SharedFrames& shared) {
  OrderedJson samples = OrderedJson::array(), weights = OrderedJson::array();
  std::vector<std::vector<std::size_t>> stacks;
  std::int64_t sum = 0;
  for (const Call& call : thread.calls) {
    auto& stack = stacks.emplace_back();
    if (call.caller >= 0) stack = stacks[static_cast<std::size_t>(call.caller)];
    stack.push_back(shared.index_of(rank.frames[static_cast<std::size_t>(call.frame)]));
    if (call.microseconds == 0) continue;
    samples.push_back(stack);
    weights.push_back(call.microseconds);
    sum += call.microseconds;
  }
  return {
      {"type", "sampled"}, {"name", name_of(rank, thread)}, {"unit", "microseconds"},       {"startValue", 0},
      {"endValue", sum},   {"samples", std::move(samples)}, {"weights", std::move(weights)}};
}

// Returns "step (train.py:44)", without the separators of the format.
std::string collapsed(const inspect::Frame& frame) {
  const std::string file = frame.file.substr(frame.file.rfind('/') + 1);
  std::string text = printable(fmt::format("{} ({}:{})", frame.function, file, frame.line), 400);
  std::ranges::replace(text, ';', ',');
  return text;
}

}  // namespace

std::string render_speedscope(const JobProfile& job, const std::string& name) {
  SharedFrames shared;
  OrderedJson profiles = OrderedJson::array();
  for_threads(job, [&](const RankProfile& rank, const ThreadProfile& thread) {
    profiles.push_back(describe(rank, thread, shared));
  });
  return write_json_text(OrderedJson{{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                                     {"name", name},
                                     {"exporter", "ddprun"},
                                     {"activeProfileIndex", 0},
                                     {"shared", {{"frames", shared.take()}}},
                                     {"profiles", std::move(profiles)}}) +
         "\n";
}

std::string render_collapsed(const JobProfile& job) {
  std::string text;
  for_threads(job, [&](const RankProfile& rank, const ThreadProfile& thread) {
    std::string root = name_of(rank, thread);
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
