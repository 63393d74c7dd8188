// When a host that does not answer is lost, and how long others wait for what may still run there.
//
// Let H be --host-timeout of a job that goes on without a host. The coordinator loses an agent after H
// without a sign of life, an agent loses the coordinator after member_limit(H), which is less. Each side
// measures from the last answer that reached it, by the clock of its own host; only the clocks' rates have to
// agree. Where the network is cut at x, these answers came between x - probe_pause(H) and x, since both sides
// probe the other that often. Loss follows between the limit and lateness() more. Then the workers are
// killed, which takes k_killing at most. From this follow the functions below; docs/decisions.md has the
// argument.
#pragma once

#include "base/duration.hpp"

namespace ddprun::rendezvous {

// From SIGKILL to the end of all workers of an agent.
inline constexpr Milliseconds k_killing{2000};
// With less an agent would lose its coordinator by a few lost packets.
inline constexpr Milliseconds k_least_host_timeout{7000};

// Between the probes of a connection with that limit: whole seconds.
Milliseconds probe_pause(Milliseconds limit);
// How much later than its limit a loss shows: the kernel's timers are coarse, an eighth at worst.
Milliseconds lateness(Milliseconds limit);

// No worker of an agent that is cut off runs when the coordinator loses it.
Milliseconds member_limit(Milliseconds host_timeout);

// From the moment when a majority has lost the coordinator and found the next one, until no worker of the
// last attempt runs on the coordinator's host.
Milliseconds wait_for_coordinator(Milliseconds host_timeout);
// Likewise, nor on others that only the coordinator could reach.
Milliseconds wait_for_others(Milliseconds host_timeout);
// From that moment until the last agents have joined that have lost the same coordinator.
Milliseconds wait_for_late(Milliseconds host_timeout);
// What a successor waits for each one before it, which may be later to lose the coordinator, and for one that
// has taken over already.
Milliseconds successor_turn(Milliseconds host_timeout);
inline constexpr Milliseconds k_finding{1000};
// Even the first looks for as long as one that has taken over needs to answer.
inline constexpr Milliseconds k_look{100};
// From the loss of a coordinator until nobody waits for the next one any more.
Milliseconds longest_search(Milliseconds host_timeout);

}  // namespace ddprun::rendezvous
