// Ranks that did not end within --shutdown-timeout, and were killed.
#pragma once

#include <string>
#include <vector>

#include "base/duration.hpp"

namespace ddprun::supervise {

// Of one host, and at one place.
struct KilledRanks {
  std::vector<int> ranks;  // ascending
  std::string host;
  int signal = 0;         // that had asked them to end
  Milliseconds after{0};  // it
  std::string place{};    // where the first of them was shortly before: "is at train.py:31 in save"; or empty
  friend bool operator==(const KilledRanks&, const KilledRanks&) = default;
};

// "ranks 0-3 on n1 were killed 30 s after SIGTERM; rank 0 was at train.py:31 in save"
std::string describe(const KilledRanks& killed);

// Those that are alike but for their rank become one.
std::vector<KilledRanks> fold_alike(std::vector<KilledRanks> killed);

}  // namespace ddprun::supervise
