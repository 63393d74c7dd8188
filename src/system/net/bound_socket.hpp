// Sockets bound to a TCP port of all addresses of this host.
// [::] serves both families, 0.0.0.0 where there is no IPv6. None is inherited by workers.
#pragma once

namespace ddprun::net {

// A bound socket, not blocking. The receiver closes the descriptor.
struct BoundSocket {
  int descriptor = -1;
  int port = 0;
  bool ipv6 = true;
  int error = 0;  // an errno; there is no descriptor then
};

// Binds a port; `port` 0 is any free one. `backlog` 0 binds without listening: then no outgoing connection
// gets the port, and another process of this host that sets SO_REUSEADDR, as torch does, can bind it beside
// us and listen.
BoundSocket bind_port(int port, int backlog);
// Binds any free port of 127.0.0.1 alone.
BoundSocket bind_loopback(int backlog);

// Binds without listening, so that no other process of this host can bind or listen there.
BoundSocket keep_port(int port);

// Begins to listen on a port that was bound without listening. Returns 0 or an errno: another process listens
// there now.
int begin_listening(const BoundSocket& socket, int backlog);

}  // namespace ddprun::net
