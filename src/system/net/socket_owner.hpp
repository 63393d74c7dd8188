// TCP connections of this host as its kernel shows them: the owner of one, and the use of those of processes.
// An owner is found by NETLINK_SOCK_DIAG (sock_diag(7), some 20 us a look-up, no privilege needed), else in
// /proc/net/tcp and tcp6.
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "rendezvous/client_questions.hpp"
#include "slow/trace.hpp"

namespace ddprun::net {

// IPv4 as such, never mapped into IPv6.
struct TcpEnds {
  boost::asio::ip::tcp::endpoint client;
  boost::asio::ip::tcp::endpoint server;
  friend bool operator<(const TcpEnds& a, const TcpEnds& b) {
    return std::tie(a.client, a.server) < std::tie(b.client, b.server);
  }
};

// Returns the two ends of an accepted socket; nullopt when its client is gone.
std::optional<TcpEnds> ends_of(int descriptor);
rendezvous::StoreConnection as_text(const TcpEnds& ends);
std::optional<TcpEnds> from_text(const rendezvous::StoreConnection& connection);

// A row of the kernel's tables. Only of a connection that is open at this end has the kernel kept the owner:
// what was closed and still has bytes under way says 0, which is root's number.
struct SocketRow {
  uid_t user = 0;
  bool open = false;
};
// Finds the row with `local` and `remote` in the text of /proc/net/tcp or tcp6.
std::optional<SocketRow> find_in_socket_table(std::string_view text,
                                              const boost::asio::ip::tcp::endpoint& local,
                                              const boost::asio::ip::tcp::endpoint& remote);

// Returns the holder of the client's end as this host knows it. `own` is for processes of `user` and of root.
rendezvous::Holder find_holder(const TcpEnds& ends, uid_t user);

// Returns the open connections of these processes to other hosts, without those between two addresses of this
// host that are equal; none where the kernel does not show them (before Linux 4.10, or without
// NETLINK_SOCK_DIAG). A process of another user shows none. Reads /proc: for a child.
std::vector<slow::Connection> list_connections(const std::vector<int>& pids);

}  // namespace ddprun::net
