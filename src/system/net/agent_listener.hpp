// Accepts connections of agents and admits those that prove to belong to this launch.
//
// Strangers cannot do harm: nothing they send is parsed, each has a few seconds, and only so many are heard
// or still have their refusal read at a time. Beyond that the oldest connection of the address that has most
// of them gives way, so that a flood costs its own host its places and keeps nobody out; and of an address
// only the first few reasons are told.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "net/authentication.hpp"
#include "net/tcp_tools.hpp"

namespace ddprun::net {

// Returns the number of connections that have not proved themselves that a listener reads at a time: `most`,
// or an eighth of the files that this process may open if that is less.
std::size_t most_strangers(std::size_t most);

struct AgentListenerSettings {
  std::vector<int> ports;            // the first that is free; 0 is any free one
  std::optional<BoundSocket> bound;  // used instead
  std::string launch_key;
  rendezvous::Authenticator authenticator;
  Milliseconds handshake_limit{10000};
  LinkLimit host_timeout{k_host_timeout};  // passed to watch_connection
  std::string port_hint;                   // hint if no port is free; empty: to choose another --master-port
  // Connections that have not proved themselves; 0: 4,096, or an eighth of what this process may open.
  std::size_t max_strangers = 0;
};

// Another program, or another ddprun, listens on each of the ports.
class PortTaken : public Error {
 public:
  using Error::Error;
};

struct AgentListenerHooks {
  std::function<void(AuthenticationResult)> on_agent;  // done
  std::function<void(std::string address, std::string why)> on_refused;
  // Another protocol on this port, or a peer that waits to be spoken to. Takes the socket and returns true,
  // or leaves it to be refused, as all are when this is not set.
  std::function<bool(Tcp::socket& socket, std::string& first_bytes)> on_foreign;
};

class AgentListener : public std::enable_shared_from_this<AgentListener> {
 public:
  // Binds and listens, on all addresses. Throws Error naming the ports when there is none, PortTaken when
  // all are in use.
  AgentListener(boost::asio::io_context& context, AgentListenerSettings settings, AgentListenerHooks hooks);
  void start();
  void close();
  int port() const { return port_; }
  std::size_t strangers() const { return strangers_.size(); }

 private:
  void accept();
  void pause();
  void admit(Tcp::socket socket);
  void conclude(const std::string& address, AuthenticationResult result);
  void make_room();
  void refuse(const std::string& address, const std::string& why);

  struct Stranger {
    std::string address;
    std::shared_ptr<Authentication> conversation;
    bool refused = false;  // and reads why
  };
  void forget(std::list<Stranger>::iterator stranger);
  AgentListenerSettings settings_;
  AgentListenerHooks hooks_;
  Tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  std::list<Stranger> strangers_;                      // in the order in which they came
  std::map<std::string, std::size_t> counts_;          // number of strangers by address
  std::map<std::string, std::set<std::string>> told_;  // reasons reported for refusing an address
  bool accepting_ = false;
  int port_ = 0;
};

}  // namespace ddprun::net
