// The newest collectives of a rank in each of its process groups, and who is in these groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/rank_view.hpp"

namespace ddprun::inspect {

struct Recorded {
  std::string group;  // torch's own name of the process group: the same on all its ranks, and on no others
  Collective collective;
  friend bool operator==(const Recorded&, const Recorded&) = default;
};

struct GroupMembers {
  std::string group;  // name as Recorded's
  std::string ranks;  // "0-3,8"
  friend bool operator==(const GroupMembers&, const GroupMembers&) = default;
};

struct RankHistory {
  int rank = 0;
  std::vector<Recorded> calls{};        // oldest first; no point-to-point operations
  std::vector<GroupMembers> members{};  // members of groups, where they are known
  friend bool operator==(const RankHistory&, const RankHistory&) = default;
};

// Parses the newest `most` collectives of a flight record, and the groups in it and in the answer of ddprun's
// module, which may be empty. nullopt for what is no flight record. torch 2.13 names no members of gloo's
// groups but those of the default one, and those only where there is no other.
std::optional<RankHistory> parse_history(int rank, std::string_view record, std::string_view module,
                                         std::int64_t unix_nanoseconds, std::size_t most);

// Returns the oldest collective that is pending, else the newest one.
std::optional<Collective> find_place(const RankHistory& history);

void describe_history(OrderedFields& fields, RankHistory& history);

}  // namespace ddprun::inspect
