// Hosts a c10d store on a TCP port, for the workers of one attempt, and links to other stores.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/connection.hpp"
#include "net/socket_owner.hpp"
#include "store/endpoint.hpp"
#include "store/request.hpp"

namespace ddprun::net {

// The connections by which a store and the relays below it speak with each other, for one of them.

// Links of one store. Messages of a relay that has no parent yet are kept until it is connected.
class StoreLinks {
 public:
  explicit StoreLinks(store::StoreEndpoint& endpoint) : endpoint_(endpoint) {}

  // Adds the link of a relay below this one. The reader of the connection passes its frames to hear(), and
  // calls note_drained().
  store::StoreLink add_child(std::shared_ptr<Connection> connection);
  void set_parent(std::shared_ptr<Connection> connection);
  void remove_child(store::StoreLink child);
  bool hear(store::StoreLink link, std::string_view payload) { return endpoint_.receive_from(link, payload); }
  void send(store::StoreLink link, store::LinkParts parts);
  void note_drained(store::StoreLink link);
  void close();

 private:
  void keep(store::LinkParts parts);
  void check_congestion(store::StoreLink link, std::size_t unsent);

  store::StoreEndpoint& endpoint_;
  std::map<store::StoreLink, std::shared_ptr<Connection>> connections_;
  store::LinkParts to_parent_;  // before there is one
  std::size_t kept_ = 0;        // bytes of these
};

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
