#include "status/rank_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::status {

namespace {

using inspect::Collective;

// Returns the collective that most ranks wait in.
std::optional<Collective> common_collective(const JobStatus& job) {
  std::map<std::string, std::pair<int, const Collective*>> counted;
  for (const NodeStatus& node : job.here) {
    for (const WorkerStatus& worker : node.workers) {
      const auto& collective = worker.view.collective;
      if (!collective || !collective->pending) continue;
      auto& [count, first] = counted[inspect::describe(*collective)];
      ++count;
      if (first == nullptr) first = &*collective;
    }
  }
  const auto most = std::ranges::max_element(counted, {}, [](const auto& each) { return each.second.first; });
  return most == counted.end() ? std::nullopt : std::optional(*most->second.second);
}

Blame blame_of(const WorkerStatus& worker, const std::optional<Collective>& common) {
  const inspect::RankView& view = worker.view;
  if (worker.pid == 0) return Blame::ended;
  if (!view.raised.empty()) return Blame::raised;
  if (view.ending) return Blame::ending;
  if (view.process.starts_with("stopped") || view.process.starts_with("traced")) return Blame::elsewhere;
  if (!view.collective && view.nccl) return view.nccl->behind > 0 ? Blame::behind : Blame::waiting;
  if (!view.collective || !view.collective->pending) return Blame::elsewhere;
  const Collective& own = *view.collective;
  if (own.group != common->group || own.sequence > common->sequence) return Blame::waiting;
  if (own.sequence < common->sequence) return Blame::behind;
  return own.operation == common->operation && own.sizes == common->sizes ? Blame::waiting
                                                                          : Blame::mismatched;
}

std::string place_of(const WorkerStatus& worker) {
  if (worker.pid != 0) return inspect::describe_place(worker.view);
  return worker.exit_code ? fmt::format("has exited with code {}", *worker.exit_code) : "has ended";
}

}  // namespace

std::vector<RankGroup> group_ranks(const JobStatus& job) {
  const auto common = common_collective(job);
  std::map<std::pair<Blame, std::string>, RankGroup> found;
  for (const NodeStatus& node : job.here) {
    for (const WorkerStatus& worker : node.workers) {
      const Blame blame = blame_of(worker, common);
      std::string place = place_of(worker);
      RankGroup& group = found[{blame, place}];
      if (group.first == nullptr || worker.rank < group.first->rank) {
        group.first = &worker;
        group.host = node.host;
      }
      group.blame = blame;
      group.ranks.push_back(worker.rank);
      group.place = std::move(place);
    }
  }
  std::vector<RankGroup> groups;
  for (auto& [key, group] : found) {
    std::ranges::sort(group.ranks);
    groups.push_back(std::move(group));
  }
  std::ranges::sort(groups, {}, [](const RankGroup& group) {
    return std::tuple(group.blame, group.ranks.size(), group.ranks.front());
  });
  return groups;
}

std::string name_of(const RankGroup& group) {
  if (group.ranks.size() == 1)
    return fmt::format("rank {} on {}", group.ranks.front(), printable(group.host, 128));
  return "ranks " + facts::render_cpu_list(group.ranks);
}

}  // namespace ddprun::status
