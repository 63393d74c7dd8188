// One message for agents that cannot start anything, and what it says about the others.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

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

}  // namespace ddprun::rendezvous
