// Ends of connections between agents, and time limits for hosts that do not answer: when they are lost.
#pragma once

#include "base/duration.hpp"

namespace ddprun::rendezvous {

// Time limits for hosts that do not answer: when they are lost, and how long others wait for their workers.
//
// Let H be --host-timeout of a job that goes on without a host. The coordinator loses an agent after H
// without a sign of life, an agent loses the coordinator after member_limit(H), which is less. Each side
// measures from the last answer that reached it, by the clock of its own host; only the clocks' rates have to
// agree. Where the network is cut at x, these answers came between x - probe_pause(H) and x, since both sides
// probe the other that often. Loss follows between the limit and lateness() more. Then the workers are
// killed, which takes k_killing at most. From this follow the functions below; docs/decisions.md has the
// argument.

// Time from SIGKILL to the end of all workers of an agent.
inline constexpr Milliseconds k_killing{2000};
// Least value: with a lower one an agent would lose its coordinator by a few lost packets.
inline constexpr Milliseconds k_least_host_timeout{7000};

// Returns the pause between the probes of a connection with that limit, in whole seconds.
Milliseconds probe_pause(Milliseconds limit);
// Returns the longest time by which a loss shows after its limit: the kernel's timers are coarse, an eighth
// at worst.
Milliseconds lateness(Milliseconds limit);

// Returns the limit of a member, chosen so that no worker of an agent that is cut off runs when the
// coordinator loses it.
Milliseconds member_limit(Milliseconds host_timeout);

// Returns the time from the moment when a majority has lost the coordinator and found the next one, until no
// worker of the last attempt runs on the coordinator's host.
Milliseconds wait_for_coordinator(Milliseconds host_timeout);
// Returns the time from that moment until no worker runs on hosts either that only the coordinator could
// reach.
Milliseconds wait_for_others(Milliseconds host_timeout);
// Returns the time from that moment until the last agents that have lost the same coordinator have joined.
Milliseconds wait_for_late(Milliseconds host_timeout);
// Returns the time that a successor gives each one before it, which may lose the coordinator later, and one
// that has taken over already.
Milliseconds successor_turn(Milliseconds host_timeout);
inline constexpr Milliseconds k_finding{1000};
// Least time that even the first successor searches: one that has taken over needs it to answer.
inline constexpr Milliseconds k_look{100};
// Returns the time from the loss of a coordinator until no agent waits for the next one any more.
Milliseconds longest_search(Milliseconds host_timeout);

// End of a connection between two agents, as the other one sees it.

enum class ConnectionEnd {
  ended,    // closed by the kernel of a process that has ended: its reaper has killed its workers
  broken,   // reset by a process that may live, and hears of this end: it kills its workers now
  silent,   // its host has not answered for as long as a host may be silent, nor heard anything
  hanging,  // its host answers, but ddprun there does not: its workers may run on
};

}  // namespace ddprun::rendezvous
