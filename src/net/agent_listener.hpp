// Accepts connections of agents and admits those that prove to belong to this launch.
//
// Strangers cannot do harm: nothing they send is parsed, each has a few seconds, and only so many are heard
// at a time. Beyond that the oldest connection of the address that has most of them is closed, so that a
// flood costs only its own host's connections and keeps no other host out.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "net/authentication.hpp"
#include "net/bound_socket.hpp"

namespace ddprun::net {

struct AgentListenerSettings {
  std::vector<int> ports;            // the first that is free; 0 is any free one
  std::optional<BoundSocket> bound;  // used instead
  std::string launch_key;
  rendezvous::Authenticator authenticator;
  Milliseconds handshake_limit{10000};
  LinkLimit host_timeout{k_host_timeout};  // passed to watch_connection
  std::string port_hint;                   // hint if no port is free; empty: to choose another --master-port
  // Connections that have not proved themselves yet; 0: 4,096, or a quarter of what this process may open.
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

 private:
  void accept();
  void pause();
  void admit(Tcp::socket socket);
  void conclude(const std::string& address, AuthenticationResult result);
  void make_room();

  struct Stranger {
    std::string address;
    std::shared_ptr<Authentication> conversation;
  };
  void forget(std::list<Stranger>::iterator stranger);
  AgentListenerSettings settings_;
  AgentListenerHooks hooks_;
  Tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  std::list<Stranger> strangers_;              // in order of arrival
  std::map<std::string, std::size_t> counts_;  // number of them by address
  bool accepting_ = false;
  int port_ = 0;
};

}  // namespace ddprun::net
