// Agents that are missing or cannot start anything, in words.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

// One message for agents that cannot start anything, and what it says about the others.

struct FailedStart {
  std::string host;
  LaunchFailure failure;
};

// Takes the sentence of an error apart where it names the host, so that equal ones can be told together.
LaunchFailure make_launch_failure(const std::string& what, const std::string& hint, int exit_code,
                                  const std::string& host);

// Returns "cannot start train.py on n3: no such file (it exists on n1, n2)". `failed` by agent and not empty;
// `well` are the hosts that could start. The first one's exit code and hint; unlike ones follow in the
// sentence.
report::Cause describe_failed_start(const std::vector<FailedStart>& failed,
                                    const std::vector<std::string>& well);

// Names of missing agents, ranks and hosts, for people.

// Returns "n[1-3]": names once each, shortened. Text from peers is made printable.
std::string describe_hosts(const std::vector<std::string>& names);

// Returns "rank 3", "ranks 0-3 and 8"; ascending or not.
std::string describe_ranks(std::vector<int> ranks);

// Returns "3 of 64 nodes: nid00[12-14]". `peers` are host names by agent index, empty where unknown; if
// several agents share a host they are called tasks.
std::string describe_missing(const std::vector<int>& missing, int agents,
                             const std::vector<std::string>& peers);

// Returns why a process whose place is taken is refused.
std::string describe_second(const Join& join, int agents);
inline constexpr std::size_t k_max_refused_shown = 8;  // processes that were refused or lost, in one sentence
inline constexpr const char* k_only_once = "start each ddprun of the job only once";

}  // namespace ddprun::rendezvous
