#include "status/crossed_groups.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "facts/proc_text.hpp"

namespace ddprun::status {

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
