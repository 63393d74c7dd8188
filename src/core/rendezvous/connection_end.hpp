// End of a connection between two agents, as the other one sees it.
#pragma once

namespace ddprun::rendezvous {

enum class ConnectionEnd {
  ended,    // closed by the kernel of a process that has ended: its reaper has killed its workers
  broken,   // reset by a process that may live, and hears of this end: it kills its workers now
  silent,   // its host has not answered for as long as a host may be silent, nor heard anything
  hanging,  // its host answers, but ddprun there does not: its workers may run on
};

}  // namespace ddprun::rendezvous
