// Choice of the first cause among several failures: cause before symptom.
//
// A worker that ends takes its connections with it, and its peers fail a moment later; who is seen first is a
// matter of luck, the more so on several hosts. So what a failure says about itself counts before the order
// in which failures were seen:
//
//   own_end    it ended by itself and says nothing of a peer
//   own_words  it was being stopped when it ended, and its last words are an exception of its own, or it
//              crashed: it was about to end when the stop came
//   peer_gone  its last words say that a peer went away
//   stopped    it was told to stop, and did
#pragma once

#include <string>
#include <vector>

#include "base/duration.hpp"
#include "report/outcome.hpp"

namespace ddprun::report {

// Window for causes: workers that end later than this after the first failure were stopped because of it.
inline constexpr Milliseconds k_cause_window{2000};

enum class Evidence { own_end, own_words, peer_gone, stopped };
Evidence evidence_of(const Failure& failure);

// A rank that had ended with success, so long before others failed.
struct EarlyEnd {
  int rank = 0;
  std::string host{};
  Milliseconds before{0};
};

// Sets `because` and the hint of a failure that misses a peer, or waited for one in vain, where ranks had
// ended before: their end is why.
void explain_by_early_ends(Failure& failure, const std::vector<EarlyEnd>& ended);

struct RankedFailures {
  Failure cause;                // with the ranks that ended alike in `alike`
  std::vector<Failure> others;  // failures that ended by themselves too, in the order in which they were seen
  std::vector<int> victims;     // ascending
};

// Ranks the failures. `seen`: at least one failure, in the order in which they were seen; `stopped`: ranks
// that are known to be victims.
RankedFailures rank_failures(std::vector<Failure> seen, std::vector<int> stopped);

// Folds failures with the same status and the same last words into one of them, with the ranks of the others.
std::vector<Failure> fold_alike(std::vector<Failure> failures);

}  // namespace ddprun::report
