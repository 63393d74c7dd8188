// The store as the workers of this host reach it.
// In a large job it is a relay on the host; the links between the relays make a tree (store/relay.hpp), whose
// root is the store of the job, in the agent that serves it.
//
// A relay that reaches neither its parent nor the root ends, and the workers connect to the store itself. One
// that loses its parent later stops answering, as the workers of a lost host do; the coordinator detects such
// a loss.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/job_store.hpp"
#include "agent/link_settings.hpp"
#include "facts/snapshot.hpp"
#include "net/agent_listener.hpp"
#include "net/dial.hpp"
#include "net/store_server.hpp"

namespace ddprun::agent {

class LocalStore {
 public:
  LocalStore(boost::asio::io_context& context, const Plans& plans, const facts::Snapshot& snapshot,
             JobStore& job_store);
  ~LocalStore();
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;

  // Listens for relays of other agents, if this one may serve some; the port, or 0.
  int listen();
  // Returns where the workers find the relay, "127.0.0.1:41234"; empty: they go to the store itself.
  std::string begin_attempt(const plan::Assignment& assignment);
  void end_attempt();

 private:
  // A relay that has come, perhaps before this agent knows of its attempt.
  struct Child {
    std::shared_ptr<net::Connection> connection;
    std::string attempt;  // attempt it has named; empty: no word yet
    std::optional<store::StoreLink> link;
    std::vector<std::string> early;  // bytes that came with its first word
  };

  net::StoreServer* server() const;
  void greet(net::AuthenticationResult result);
  void hear_child(int number, const std::string& payload);
  void attach(int number);
  void drop_child(int number);
  void lose_child(int number);
  void dial();
  void conclude(net::AuthenticationResult result);
  void hear_parent(const std::string& payload);
  void lose_parent(const std::string& why);
  void close_relay(const std::string& why);

  boost::asio::io_context& context_;
  const Plans& plans_;
  const facts::Snapshot& snapshot_;
  JobStore& job_store_;
  std::shared_ptr<net::AgentListener> listener_;
  std::map<int, Child> children_;  // in order of arrival
  int arrived_ = 0;
  // Members of the current attempt:
  std::string attempt_;
  std::vector<plan::StorePlace> places_;  // places still to be tried
  std::unique_ptr<net::StoreServer> relay_;
  std::unique_ptr<net::FirstDial> dial_;
  std::shared_ptr<int> life_;  // lives as long as the relay
  std::shared_ptr<net::Connection> parent_;
  boost::asio::steady_timer silence_;  // since the parent is lost
};

}  // namespace ddprun::agent
