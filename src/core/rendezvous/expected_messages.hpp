// Messages that fit the state of a connection.
// A peer that has the key may still be broken or outdated; a message that no ddprun sends at that time ends
// its connection, and only that.
#pragma once

#include <string>

#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

enum class CoordinatorState { gathering, probing, opening, running, stopping, finished };

enum class Reception {
  taken,
  late,  // sent before the state changed
  wrong,
};

// Judges a message as the coordinator. `joined`: this connection's agent has been taken in. `current`: the
// attempt that runs, is being stopped or is about to start.
Reception judge(const AgentMessage& message, bool joined, CoordinatorState state, Attempt current);

// State of a member as the coordinator last set it.
enum class MemberState {
  joined,   // no workers run, or ran
  running,  // since Start
  asked,    // since Stop
  stopped,  // since it answered Stopped; the next Start may come
};

// Judges a message as a member.
Reception judge(const CoordinatorMessage& message, MemberState state);

// Return the member's state after it has received or sent a message.
MemberState after_received(const CoordinatorMessage& message, MemberState state);
MemberState after_sent(const AgentMessage& message, MemberState state);

// Describes it: "it sent a success when nothing of that kind could come".
std::string describe_wrong(const AgentMessage& message);
std::string describe_wrong(const CoordinatorMessage& message);

}  // namespace ddprun::rendezvous
