#include "checkpoint/room.hpp"

#include <algorithm>

namespace ddprun::checkpoint {

std::vector<std::int64_t> needless_steps(const StepSizes& steps, const std::vector<std::int64_t>& complete) {
  std::vector<std::int64_t> needless;
  for (const auto& [step, size] : steps) {
    if (!complete.empty() && step < complete.back()) needless.push_back(step);
  }
  return needless;
}

std::vector<std::int64_t> steps_to_remove(const StepSizes& steps, const std::vector<std::int64_t>& complete,
                                          std::uint64_t bytes) {
  std::vector<std::int64_t> removed;
  std::uint64_t freed = 0;
  for (const bool kept : {false, true}) {
    for (const auto& [step, size] : steps) {
      if (complete.empty() || step >= complete.front() || freed >= bytes) break;
      if (kept != (std::ranges::find(complete, step) != complete.end())) continue;
      removed.push_back(step);
      freed += size;
    }
  }
  return freed < bytes ? std::vector<std::int64_t>() : removed;
}

std::vector<Offer> parts_to_copy(const std::vector<Offer>& offers, const std::vector<Part>& here,
                                 const std::vector<std::int64_t>& complete) {
  std::vector<Offer> wanted;
  for (const Offer& offer : offers) {
    const bool needless = !complete.empty() && offer.step < complete.back();
    const bool known = std::ranges::any_of(here, [&](const Part& part) {
      return part.replica && part.step == offer.step && part.rank == offer.rank;
    });
    if (needless || known) continue;
    if (!wanted.empty() && wanted.front().step < offer.step) wanted.clear();
    if (wanted.empty() || wanted.front().step == offer.step) wanted.push_back(offer);
  }
  return wanted;
}

}  // namespace ddprun::checkpoint
