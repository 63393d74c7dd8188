// What an agent has of checkpoints, written short.
#pragma once

#include <string>

#include "base/text.hpp"
#include "checkpoint/manifest.hpp"

namespace ddprun::test::checkpoints {

// "90:0+1 100:1": parts of rank 0 and replicas of rank 1 of step 90, and the part of rank 1 of step 100. The
// ranks after + are replicas. All are of a world of so many ranks.
inline checkpoint::Held held(const std::string& text, int world = 2, int attempt = -1,
                             std::int64_t begun_from = -1) {
  checkpoint::Held result;
  result.attempt = attempt;
  result.begun_from = begun_from;
  for (const std::string& word : split_words(text)) {
    const std::size_t colon = word.find(':');
    const std::int64_t step = std::stoll(word.substr(0, colon));
    bool replica = false;
    for (const char each : word.substr(colon + 1)) {
      if (each == '+')
        replica = true;
      else
        result.parts.push_back({step, each - '0', world, 1000, replica});
    }
  }
  return result;
}

// The same, of an agent that sees this step in the flush folder.
inline checkpoint::Held published(checkpoint::Held held, std::int64_t step, int world = 2) {
  held.published = step;
  held.published_world = world;
  return held;
}

}  // namespace ddprun::test::checkpoints
