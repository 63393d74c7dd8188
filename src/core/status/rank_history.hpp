// Newest collectives of a rank in each of its process groups, and who is in these groups.
// Read from flight records, and laid side by side for all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "status/rank_view.hpp"

namespace ddprun::status {

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

// Returns a line for each group that has a call, those first whose ranks have not made the same calls:
// "default group (ranks 0-3): ranks 0,2-3 wait in all_reduce #6 (10 float), missing: rank 1 (last #5)".
//
// A rank is missing in the oldest collective that another one waits in if its newest one has a lower number;
// what a rank's record has dropped, since it keeps the newest ones alone, it has entered. Calls of one number
// that differ are an error also where they have ended. Sizes may differ in all_to_all, gather and scatter,
// and in all_gather and reduce_scatter of lists. Who is in a group is known from the records, else from who
// has used it.
std::vector<std::string> check_groups(const std::vector<RankHistory>& histories);

// Returns "rank 3", "ranks 0-2,5".
std::string name_ranks(const std::vector<int>& ascending);

}  // namespace ddprun::status
