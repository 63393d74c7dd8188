// Small things that every TCP connection of ours shares, and sockets bound to a port of this host.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "base/duration.hpp"

namespace ddprun::net {

// Small things that every TCP connection of ours shares.

using Tcp = boost::asio::ip::tcp;

// Longest time that a host may be out of reach.
struct LinkLimit {
  // NOLINTNEXTLINE(google-explicit-constructor): most limits are just a time
  LinkLimit(Milliseconds limit, bool by_silence = false) : time(limit), exact(by_silence) {}
  Milliseconds time;
  // The connection ends after that much silence, as others count on it (rendezvous/host_limits.hpp). Else a
  // cut that is shorter never ends it, and silence may last two probes longer.
  bool exact;
};

// --host-timeout's default.
inline constexpr Milliseconds k_host_timeout{20000};

// Returns the silence that ends a connection: nothing that the other host's kernel answered has arrived.
Milliseconds longest_silence(const LinkLimit& limit);
// Sets keep-alive probes of the kernel, every second or, for a long limit, every hundredth of it: they end a
// connection that carries nothing, and this process never has to wake up for it. Sets no delay for small
// messages, and no inheritance by workers, who would keep the connection open after our end.
void watch_connection(Tcp::socket& socket, const LinkLimit& limit);
// Repeats unacknowledged bytes every second at least, if the kernel can be told so (Linux 6.15): while there
// are some it does not probe. Else it repeats them at intervals that double, so that after a cut they stay
// unacknowledged for as long as the cut was. Returns which. The kernel does not give the connection up before
// the limit.
bool repeat_every_second(Tcp::socket& socket, const LinkLimit& limit);
// Returns the time since the last answer, or anything else that was in order, came from the other host.
Milliseconds silence_of(Tcp::socket& socket);
// Returns the bytes that were sent and have not arrived, as far as this kernel knows.
std::size_t undelivered_bytes(Tcp::socket& socket);

// Describes the error in plain words, lower case: "connection refused", "no route to the host".
std::string describe_error(const boost::system::error_code& error);

// Returns a numeric address, an IPv4 address mapped into IPv6 as IPv4; empty when the socket is not
// connected.
std::string remote_address(const Tcp::socket& socket);
std::string local_address(const Tcp::socket& socket);
// Returns the local end that this host's routes would give a connection to a numeric address; nothing is
// sent. Empty if no route leads there.
std::string routed_local_address(const std::string& address);

// Sockets bound to a TCP port of all addresses of this host.
// [::] serves both families, 0.0.0.0 where there is no IPv6. None is inherited by workers.

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
