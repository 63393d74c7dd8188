#include "status/rank_groups.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::status {

namespace {

using status::Collective;

// Place that most ranks wait in: a collective that torch records, or another call.
struct Common {
  int count = 0;
  const Collective* collective = nullptr;
  std::string call{};
};

bool is_pending(const WorkerStatus& worker) {
  return worker.view.collective && worker.view.collective->pending;
}

Common find_common(const JobStatus& job) {
  std::map<std::string, Common> counted;
  for_each_worker(job, [&](const NodeStatus&, const WorkerStatus& worker) {
    const bool recorded = is_pending(worker);
    const std::string call =
        recorded ? status::describe(*worker.view.collective) : status::waiting_call(worker.view);
    if (call.empty()) return;
    Common& found = counted[call];
    ++found.count;
    if (recorded) found.collective = &*worker.view.collective;
    found.call = call;
  });
  const auto order = [](const auto& each) {
    return std::pair(each.second.count, each.second.collective != nullptr);
  };
  const auto most = std::ranges::max_element(counted, {}, order);
  return most == counted.end() ? Common{} : most->second;
}

Blame blame_of(const WorkerStatus& worker, const Common& common, const std::set<int>& crossed) {
  const status::RankView& view = worker.view;
  if (worker.pid == 0) return Blame::ended;
  if (!view.raised.empty()) return Blame::raised;
  if (view.ending) return Blame::ending;
  if (view.process.starts_with("stopped") || view.process.starts_with("traced")) return Blame::elsewhere;
  if (!is_pending(worker)) {
    if (status::at_prompt(view)) return Blame::prompt;
    const std::string call = status::waiting_call(view);
    if (!call.empty()) return call == common.call ? Blame::waiting : Blame::mismatched;
    if (!view.collective && view.nccl) return view.nccl->behind > 0 ? Blame::behind : Blame::waiting;
    return Blame::elsewhere;
  }
  if (crossed.contains(worker.rank)) return Blame::crossed;
  if (common.collective == nullptr) return Blame::mismatched;
  const Collective& own = *view.collective;
  if (own.group != common.collective->group || own.sequence > common.collective->sequence)
    return Blame::waiting;
  if (own.sequence < common.collective->sequence) return Blame::behind;
  const bool same = own.operation == common.collective->operation && own.sizes == common.collective->sizes;
  return same ? Blame::waiting : Blame::mismatched;
}

std::string place_of(const WorkerStatus& worker) {
  if (worker.pid != 0) return status::describe_place(worker.view);
  return worker.exit_code ? fmt::format("has exited with code {}", *worker.exit_code) : "has ended";
}

}  // namespace

std::vector<RankGroup> group_ranks(const JobStatus& job) {
  const Common common = find_common(job);
  const std::set<int> crossed = find_crossed(job);
  std::map<std::pair<Blame, std::string>, RankGroup> found;
  for_each_worker(job, [&](const NodeStatus& node, const WorkerStatus& worker) {
    const Blame blame = blame_of(worker, common, crossed);
    std::string place = place_of(worker);
    RankGroup& group = found[{blame, place}];
    if (group.first == nullptr || worker.rank < group.first->rank) {
      group.first = &worker;
      group.host = node.host;
    }
    group.blame = blame;
    group.ranks.push_back(worker.rank);
    group.place = std::move(place);
  });
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
  const std::string host = group.host.empty() ? "" : " on " + printable(group.host, 128);
  if (group.ranks.size() == 1) return fmt::format("rank {}{}", group.ranks.front(), host);
  return "ranks " + facts::render_cpu_list(group.ranks);
}

namespace {

// The ranks that wait in one collective: each of them for the same others.
struct Waiting {
  std::string group;
  bool all = false;       // every rank is in the group
  std::set<int> members;  // else these
  std::set<int> ranks{};
  std::set<std::size_t> waits_for{};  // further ones, by number
};

std::vector<Waiting> find_waiting(const JobStatus& job) {
  std::map<std::string, Waiting> found;
  for_each_worker(job, [&](const NodeStatus&, const WorkerStatus& worker) {
    const auto& collective = worker.view.collective;
    if (worker.pid == 0 || !collective || !collective->pending) return;
    // Two groups may have one name: what they are is who is in them.
    const std::string group = collective->group + " " + collective->members;
    Waiting& waiting = found[status::describe(*collective) + group];
    waiting.ranks.insert(worker.rank);
    waiting.group = group;
    waiting.all = status::is_default_group(collective->group);
    if (const auto members = facts::parse_cpu_list(collective->members); members && waiting.members.empty())
      waiting.members = std::set<int>(members->begin(), members->end());
  });
  std::vector<Waiting> all;
  for (auto& [name, waiting] : found) all.push_back(std::move(waiting));
  return all;
}

bool waits_for(const Waiting& one, const Waiting& other) {
  if (one.group == other.group) return false;
  return one.all || std::ranges::any_of(other.ranks, [&](int rank) { return one.members.contains(rank); });
}

bool reaches(const std::vector<Waiting>& all, std::size_t from, std::size_t goal) {
  std::set<std::size_t> seen;
  std::vector<std::size_t> next{from};
  while (!next.empty()) {
    const std::size_t at = next.back();
    next.pop_back();
    for (const std::size_t further : all[at].waits_for) {
      if (further == goal) return true;
      if (seen.insert(further).second) next.push_back(further);
    }
  }
  return false;
}

}  // namespace

std::set<int> find_crossed(const JobStatus& job) {
  constexpr std::size_t k_most = 256;  // collectives that are looked at
  std::vector<Waiting> all = find_waiting(job);
  all.resize(std::min(all.size(), k_most));
  for (Waiting& one : all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (waits_for(one, all[i])) one.waits_for.insert(i);
    }
  }
  std::set<int> crossed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (reaches(all, i, i)) crossed.insert(all[i].ranks.begin(), all[i].ranks.end());
  }
  return crossed;
}

}  // namespace ddprun::status
