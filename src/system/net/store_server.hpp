// Hosts a c10d store on a TCP port, for the workers of one attempt.
//
// One thread, no timer while there is descriptor room, no wake-up while no client sends. All connections hang
// in an epoll set of the server's own and Asio watches that one descriptor, so a burst of requests costs Asio
// one event, and a silent connection costs a table entry and no buffer. Answers to everything one read
// brought leave in one write. A client that has not read an answer is not read from; one that wants more
// memory than it may have, that sends what is no request, or that may not be here is closed; what it had half
// sent has no effect on others.
//
// One whose turn took long, or brought more requests than a turn has, waits: such turns come one at a time,
// and while others have short ones each is followed by as much time for these. So however many are busy, and
// with what, they cost another client half its rate at most.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/socket_owner.hpp"
#include "net/store_links.hpp"
#include "store/request.hpp"

namespace ddprun::net {

// `wait`: nothing is read from it until decide(). The one who decides sees to it that they do not pile up.
enum class Admission { yes, no, wait };

struct StoreServerOptions {
  int port = 0;  // 0: any free one
  // Decides which ends may connect (IPv4 as such, never mapped into IPv6). Unset: all.
  std::function<Admission(const TcpEnds&)> admit;
  int backlog = boost::asio::socket_base::max_listen_connections;  // the kernel caps it at somaxconn
  // Dialect of clients before torch 2.2, if the installed torch was seen; else it is recognised by what they
  // send.
  std::optional<store::StoreDialect> old_dialect;
  store::StoreLimits limits;
  // Serves as a relay to the store of the job, on a port of 127.0.0.1 alone; see links().
  bool relay = false;
  std::size_t max_connections = 0;  // 0: as many as the process may have descriptors, less some
  // Told in one line when the server closes a connection of its own accord or cannot accept, and whether for
  // want of memory. For logs; may be unset.
  std::function<void(const std::string& what, bool memory)> report;
  // Handler called for each connection, with the number of open ones; may be unset.
  std::function<void(std::size_t)> connected;
};

class StoreServer {
 public:
  // Listens when it returns, on [::] for both families, or on 0.0.0.0 where there is no IPv6. Throws Error
  // naming the port when it cannot.
  StoreServer(boost::asio::io_context& context, StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const;
  // Serves a connection that was accepted, and whose first bytes were read, elsewhere. `admit` counts here
  // too.
  void adopt(boost::asio::ip::tcp::socket socket, std::string first_bytes);
  // Ends the wait of this connection, if it waits.
  void decide(const TcpEnds& ends, bool allowed);
  // Returns the links to relays below it, and of a relay to the one above it. The reader of their messages
  // calls flush() then.
  StoreLinks& links();
  void flush();
  // Ends the listener and all connections, at once.
  void close();
  std::size_t connections() const;  // includes those of relays' clients, as far as the relays needed them
  std::size_t memory_used() const;
  bool reached() const;  // an admitted client has connected since it listens

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the handler that Asio may still hold
};

}  // namespace ddprun::net
