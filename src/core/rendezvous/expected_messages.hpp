// Messages that fit the state of a connection.
// A peer that has the key may still be broken or outdated; a message that no ddprun sends at that time ends
// its connection, and only that.
#pragma once

#include <string>

#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

// States of the coordinator:
//
// gathering  Waits for one Join of every agent. Agents without a number get the next free place as they come,
//            and keep it over restarts; one that has a number may move them. Who disagrees about the launch
//            (version, count, host) ends it. A second process for a place that is taken is refused alone,
//            and so is who comes later, if it is none that may return. An agent that cannot start anything
//            joins with the reason; the others have half a second more to say whether they can.
// probing    Only when the agents reached the coordinator by different addresses: takes the best that all
//            reach. Where there is none they are asked again, as a host under load may answer late.
// opening    The store of the attempt is being opened; then every agent gets Start. Before a restart that
//            waits (--restart-backoff) no worker runs, and a signal or a lost agent ends the job at once.
// running    Until all succeeded, or the first failure, loss of an agent or signal; there is no deadline.
// stopping   All agents have been sent Stop (spares: Look), and answer or are lost when the stop time-out
//            ends. Then: the next attempt with an empty store on a new port if a worker's failure
//            was the cause and lifecycle/restart_policy.hpp answers it with a restart, else the end.
// finished   Every connected agent has been sent one Finish, as a late Join is, then came one EndJob.
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
