// Small things that every TCP connection of ours shares.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "base/duration.hpp"

namespace ddprun::net {

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

}  // namespace ddprun::net
