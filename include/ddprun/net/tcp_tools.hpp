// Small things that every TCP connection of ours shares.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "ddprun/base/duration.hpp"

namespace ddprun {

using Tcp = boost::asio::ip::tcp;

// How long a host may be silent to the kernel's own probes before its connections end.
inline constexpr Milliseconds k_silence_limit{20000};

// Keep-alive probes and TCP_USER_TIMEOUT, so that the kernel notices a host that went away within
// k_silence_limit and this process never has to wake up for it; no delay for small messages; and no
// inheritance by workers, who would keep the connection open after our end.
void watch_connection(Tcp::socket& socket);

// In plain words, lower case: "connection refused", "no route to the host".
std::string describe_error(const boost::system::error_code& error);

// Numeric, an IPv4 address mapped into IPv6 as IPv4; empty when the socket is not connected.
std::string remote_address(const Tcp::socket& socket);
std::string local_address(const Tcp::socket& socket);
// What this host's routes would make the local end of a connection to a numeric address; nothing is sent.
// Empty where no route leads there.
std::string routed_local_address(const std::string& address);

}  // namespace ddprun
