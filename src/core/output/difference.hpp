// Differences by nature between the same lines of two ranks, which are left out when they are compared.
// "Connection closed by peer [127.0.0.1]:57043" at one and ":39041" at another are the same.
// A number alone is not: losses, steps and shapes differ because the ranks do.
//
// tests/data/folding has pairs of both kinds, as torch, gloo, NCCL, CUDA, DataLoader, Hydra and Lightning
// print them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::output {

struct Difference {
  enum class Kind { port, address, pid, memory_address, rank, gpu, time, duration, temporary_path };
  Kind kind;
  std::string value;
  friend bool operator==(const Difference&, const Difference&) = default;
};

struct Comparable {
  std::string text;               // with a mark in the place of each difference
  std::vector<Difference> parts;  // in their order
};

// Returns the comparable form of whole lines of this rank, without torch's "[rank3]: " in front of them. A
// rank counts as one only if it is this one.
Comparable make_comparable(std::string_view lines, GlobalRank rank);

// Reports whether they differ in their parts alone. A text may hold what looks like a mark, so these are
// counted too.
bool are_alike(const Comparable& one, const Comparable& other);

// Returns "the port", "the port, the pid and the time"; empty for none.
std::string describe_kinds(const std::vector<Difference>& differences);

}  // namespace ddprun::output
