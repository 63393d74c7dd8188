// Collectives of all ranks side by side: who entered each of them when, and which of them the ranks wait for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slow/trace.hpp"

namespace ddprun::slow {

struct Moment {
  std::int64_t at = 0;  // microseconds on the shared clock
  std::size_t collective = 0;
  int took = 0;  // Entry::took
};

struct Track {
  int rank = 0;
  std::size_t node = 0;
  int bound = 0;                // NodeTrace::bound
  std::vector<Moment> moments;  // in the order of the rank's own record
};

// One rank in a collective.
struct Member {
  std::size_t track = 0;
  std::int64_t at = 0;              // when it entered
  int took = 0;                     // Entry::took
  std::optional<Moment> next = {};  // entry that followed, in whichever group
};

struct Collective {
  int group = 0;
  Role role = Role::other;
  int signature = 0;
  std::vector<Member> members{};
  bool whole = false;    // all ranks of its group meet in it, and each one's entry is there
  bool judged = false;   // its ranks may be compared: no two of them send to each other
  bool awaited = false;  // its ranks go on only when it is complete
  bool timed = false;    // whole, and each one's GPU says how long it took
  bool holds = false;    // timed, and its ranks' GPUs go on only when it is complete
  std::size_t kind = 0;  // equal for those at the same place of a step
  std::int64_t last = 0;
};

struct Collectives {
  std::vector<Track> tracks;  // sorted by rank
  std::vector<Collective> all;
};

// Joins what the nodes have sent. A collective is known by its group's name and its number.
Collectives join_traces(const std::vector<NodeTrace>& nodes);

// Returns the microseconds of a step of the node's first rank; nullopt if nothing repeats at least three
// times. A step is the shortest distance at which the kinds of collectives recur (Collective::kind). Each
// kind weighs the same in that, so that the layers of a model, which recur within a step, are none; and three
// of four must recur. A kind of which there is one in 200 of the commonest is no part of the steps, as an
// evaluation now and then: a step of more layers than that is not recognised.
std::optional<double> find_step(const NodeTrace& node);

// Returns the number in the middle, of an even count the lower one; 0 of none.
template <class Number>
Number middle_of(std::vector<Number> numbers) {
  if (numbers.empty()) return Number{};
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>((numbers.size() - 1) / 2);
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

}  // namespace ddprun::slow
