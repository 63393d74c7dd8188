// The listening socket of the store.
#pragma once

namespace ddprun {

struct ListeningSocket {
  int descriptor;  // non-blocking, close-on-exec, owned by the caller
  int port;
};

// Listens on `port` (0: any free one) of [::] for both families, or of 0.0.0.0 where there is no IPv6. Throws
// Error.
ListeningSocket listen_for_store(int port, int backlog);

}  // namespace ddprun
