// The c10d store of the current attempt, or the port that is kept for a worker that hosts it itself.
//
// Every attempt gets an empty store on a new port, so no key and no straggler survives a restart. With a port
// the user named, the attempts take turns on it and the k_port_span - 1 after it (the next free one from
// there): firewalls are opened for ranges. Where all of them are taken, a restart takes any free port.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "net/store_server.hpp"
#include "os/descriptors.hpp"

namespace ddprun::agent {

inline constexpr int k_port_span = 64;

struct JobStoreSettings {
  std::optional<int> port;      // --master-port, MASTER_PORT
  bool port_is_shared = false;  // the rendezvous listens on the user's port; attempt 0 is served through it
  std::optional<std::pair<int, int>> range;  // the site's ports, where the user named none
  std::string port_hint = "choose another --master-port, or none: ddprun finds a free one";  // it is taken
  // Handler called once in the life of the job if workers are served and none has connected for so long; may
  // be unset.
  std::function<void()> on_silence{};
  Milliseconds silence{60000};
  options::StoreAccess access = options::StoreAccess::user;
  std::uint64_t memory = 0;  // bytes; 0: a quarter of what this host or cgroup has
};

class JobStore {
 public:
  JobStore(boost::asio::io_context& context, JobStoreSettings settings);

  // Allows connections from these numeric addresses, besides this host's.
  void allow(const std::vector<std::string>& addresses);
  // Sets the handler called for each connection, with the number of open ones.
  void when_connected(std::function<void(std::size_t)> handler) { connected_ = std::move(handler); }
  // Notes the torch version of the workers if it is known, before the first open().
  void note_torch(const std::string& version) { old_dialect_ = store::old_dialect_of(version); }
  // Sets the question asked for a connection from another host; judge() is the answer.
  void when_remote(std::function<void(const rendezvous::ClientQuestion&)> ask) { ask_ = std::move(ask); }
  void judge(const rendezvous::ClientVerdict& verdict);
  // Returns the port workers are told. `worker_hosts`: the port is kept free instead of served. Throws Error.
  int open(Attempt attempt, bool worker_hosts);
  // Keeps some free ports, for a worker of this host that hosts the store of a coordinator elsewhere.
  std::vector<int> keep_ports(int count);
  void close();
  // Returns the server of the current attempt's store; nullptr: this process serves none.
  net::StoreServer* server() const { return server_.get(); }
  // Reports whether workers are or were served in the current attempt, and none of them has connected.
  bool unused() const { return served_ && !(server_ ? server_->reached() : reached_); }
  // Adopts a connection that reached the rendezvous' port and is no agent's. False: the store is not reached
  // there now, and the socket is left alone.
  bool adopt(boost::asio::ip::tcp::socket& socket, std::string& first_bytes);

 private:
  using Addresses = std::set<boost::asio::ip::address>;

  net::Admission admit(const net::TcpEnds& ends);
  net::Admission admit_by_host(const net::TcpEnds& ends);
  net::Admission ask_about(const net::TcpEnds& ends);
  net::Admission refuse(const boost::asio::ip::address& address, rendezvous::Holder holder);
  void tell_closed(const std::string& what, bool memory);
  void tell_unproven(const boost::asio::ip::address& address);
  int serve(int port);
  int keep(int port);
  int take_exactly(int port, int (JobStore::*take)(int));
  int first_free(int port, int turn, int (JobStore::*take)(int));
  void listen_for_silence();
  int first_free_of(std::pair<int, int> range, int (JobStore::*take)(int));

  boost::asio::io_context& context_;
  JobStoreSettings settings_;
  std::optional<store::StoreDialect> old_dialect_;
  Addresses allowed_;  // addresses that agents joined from
  // Connections of the current attempt:
  std::set<net::TcpEnds> unjudged_;                          // asked about
  std::map<boost::asio::ip::address, std::size_t> waiting_;  // number of unjudged ones by host
  Addresses strange_;                                        // addresses that no agent announced, asked about
  Addresses admitted_;                                       // addresses that their agent has vouched for
  Addresses told_;
  std::size_t closed_told_ = 0;
  std::function<void(std::size_t)> connected_;
  bool unproven_told_ = false;
  std::function<void(const rendezvous::ClientQuestion&)> ask_;
  std::unique_ptr<net::StoreServer> server_;
  std::vector<os::Fd> kept_;  // bound, never listening
  int next_turn_ = 0;         // next port, counted from the named one: beyond those of earlier attempts
  bool shared_open_ = false;
  bool served_ = false;
  bool reached_ = false;  // state at the server's end
  boost::asio::steady_timer silence_;
};

}  // namespace ddprun::agent
