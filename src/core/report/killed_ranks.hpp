// Ranks that did not end within --shutdown-timeout, and were killed.
#pragma once

#include <string>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::report {

// Ranks of one host that were killed at the same place.
struct KilledRanks {
  std::vector<int> ranks;  // ascending
  std::string host;
  int signal = 0;         // the signal that had asked them to end
  Milliseconds after{0};  // time from that signal to SIGKILL
  std::string place{};    // place of the first of them shortly before: "is at train.py:31 in save"; or empty
  friend bool operator==(const KilledRanks&, const KilledRanks&) = default;
};

// Returns "ranks 0-3 on n1 were killed 30 s after SIGTERM; rank 0 was at train.py:31 in save"
std::string describe(const KilledRanks& killed);

// Joins those that differ in nothing but their ranks.
std::vector<KilledRanks> fold_alike(std::vector<KilledRanks> killed);

}  // namespace ddprun::report
