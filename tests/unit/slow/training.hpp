// A simulated training: when each rank enters each collective, from how long it works before it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "slow/trace.hpp"

namespace ddprun::slow {

// The clocks of all ranks advance as gloo's would: who enters an awaited collective goes on once the last
// rank of its group has entered it.
class Training {
 public:
  explicit Training(int ranks, double jitter = 0.02, unsigned seed = 1)
      : clock_(static_cast<std::size_t>(ranks), 1e6),
        trace_(static_cast<std::size_t>(ranks)),
        jitter_(jitter),
        random_(seed) {}

  int ranks() const { return static_cast<int>(clock_.size()); }
  std::vector<int> all() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < this->ranks(); ++rank) ranks.push_back(rank);
    return ranks;
  }

  // Microseconds of work, which vary.
  void work(int rank, double time) {
    std::normal_distribution<double> varied(time, time * jitter_);
    clock_.at(static_cast<std::size_t>(rank)) += std::max(varied(random_), 0.0);
  }
  void pause(int rank, double time) { clock_.at(static_cast<std::size_t>(rank)) += time; }

  // `ranks` enter a collective of this group, and wait for it or not.
  void meet(const std::vector<int>& ranks, const std::string& group, int signature, bool waits = true,
            Role role = Role::meets) {
    const int number = ++numbers_[group];
    double last = 0;
    for (const int rank : ranks) {
      enter(rank, group, number, signature, role);
      last = std::max(last, clock_.at(static_cast<std::size_t>(rank)));
    }
    pending_[group] = std::max(pending_[group], last);
    if (!waits) return;
    for (const int rank : ranks) {
      double& clock = clock_.at(static_cast<std::size_t>(rank));
      clock = std::max(clock, pending_[group]) + 100;
    }
    pending_[group] = 0;
  }

  // One rank enters a collective, or sends.
  void enter(int rank, const std::string& group, int number, int signature, Role role) {
    const auto found = std::ranges::find(groups_, group);
    const auto index = static_cast<int>(found - groups_.begin());
    if (found == groups_.end()) groups_.push_back(group);
    trace_.at(static_cast<std::size_t>(rank))
        .push_back({{index, static_cast<int>(role), number, signature, 0},
                    clock_.at(static_cast<std::size_t>(rank))});
  }

  // Each node has `per_node` ranks, of which the newest `most` entries are known.
  std::vector<NodeTrace> traces(int per_node, std::size_t most = k_most_entries, int bound = 0) const {
    std::vector<NodeTrace> nodes;
    for (int rank = 0; rank < ranks(); ++rank) {
      const auto& all = trace_.at(static_cast<std::size_t>(rank));
      const std::size_t first = all.size() - std::min(all.size(), most);
      if (rank % per_node == 0) {
        const auto base = static_cast<std::int64_t>(all.empty() ? 0 : all[first].at - 1e9);
        nodes.push_back({base, bound, 0, groups_, {}});
      }
      RankTrace trace{rank, {}};
      for (std::size_t i = first; i < all.size(); ++i) {
        trace.entries.push_back(all[i].entry);
        trace.entries.back().at = static_cast<int>(all[i].at - static_cast<double>(nodes.back().base));
      }
      nodes.back().ranks.push_back(std::move(trace));
    }
    return nodes;
  }
  std::vector<NodeTrace> traces() const { return traces(ranks()); }
  double now(int rank) const { return clock_.at(static_cast<std::size_t>(rank)); }

 private:
  struct Entered {
    Entry entry;
    double at;
  };
  std::vector<double> clock_;
  std::vector<std::vector<Entered>> trace_;
  std::map<std::string, int> numbers_;
  std::map<std::string, double> pending_;
  std::vector<std::string> groups_;
  double jitter_;
  std::mt19937 random_;
};

}  // namespace ddprun::slow
