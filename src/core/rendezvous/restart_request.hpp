// Messages about restarts that are asked for from outside, by --restart and --drain.
#pragma once

#include <string>

namespace ddprun::rendezvous {

// Request of an agent's host to the coordinator: start all workers again.
struct RestartRequest {
  int number = 0;         // number among those of this agent, for the reply
  std::string drained{};  // host that leaves the job before; empty: none
  std::string sender{};   // "ada (pid 123) on n1"
  friend bool operator==(const RestartRequest&, const RestartRequest&) = default;
};

// The answer to it.
struct RestartReply {
  int number = 0;
  bool accepted = false;
  std::string what{};  // sentence: what follows, or why nothing does
  std::string hint{};
  friend bool operator==(const RestartReply&, const RestartReply&) = default;
};

}  // namespace ddprun::rendezvous
