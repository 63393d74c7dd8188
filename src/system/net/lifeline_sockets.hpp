// Both ends of the lifeline between an agent and the ddprun that started it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "net/agent_listener.hpp"
#include "net/dial.hpp"
#include "rendezvous/lifeline.hpp"

namespace ddprun::net {

class Connection;

// Lifelines at the front end: which agents are connected, their messages, and signals to all of them.
class LifelineServer {
 public:
  struct Hooks {
    std::function<void(const rendezvous::lifeline::Hello& hello)> on_agent;
    // Returns the task of an agent that asks for one; empty bytes if there is no such place.
    std::function<std::string(const rendezvous::lifeline::Hello& hello)> make_task;
    std::function<void(const rendezvous::lifeline::Hello& hello, const rendezvous::lifeline::Ended& ended)>
        on_ended;
    std::function<void(const rendezvous::lifeline::Hello& hello, const std::string& why)> on_lost;
    // The socket and the first bytes of an agent's output.
    std::function<void(const rendezvous::lifeline::Output& output, Tcp::socket socket,
                       std::string first_bytes)>
        on_output;
    std::function<void(const std::string& address, const std::string& why)> on_refused;
    std::function<void(int socket, bool open)> on_link{};  // to an agent: it is open, or about to be closed
  };

  // Listens on a free port of all addresses. Throws Error.
  LifelineServer(boost::asio::io_context& context, rendezvous::Authenticator authenticator,
                 const std::string& id, Hooks hooks, Milliseconds host_timeout = k_host_timeout);
  ~LifelineServer();
  LifelineServer(const LifelineServer&) = delete;
  LifelineServer& operator=(const LifelineServer&) = delete;

  int port() const { return listener_->port(); }
  // Returns the number of agents that are connected and have not reported their end.
  std::size_t connected() const;
  void signal_all(const rendezvous::lifeline::Signal& signal);
  void close();

 private:
  struct Peer {
    std::shared_ptr<Connection> connection;
    rendezvous::lifeline::Hello hello;
    bool greeted = false;
    bool ended = false;
    int link = -1;  // socket that on_link got
  };

  void admit(AuthenticationResult agent);
  void take(int number, const std::string& payload);
  void handle(int number, rendezvous::lifeline::Hello hello);
  void hand_over(int number, const rendezvous::lifeline::Output& output);
  void lose(int number, const std::string& why);
  void forget_link(const Peer& peer) const;

  rendezvous::Authenticator authenticator_;
  Hooks hooks_;
  Milliseconds host_timeout_;
  std::shared_ptr<AgentListener> listener_;
  std::map<int, Peer> peers_;  // in order of arrival
  int arrived_ = 0;
};

// An agent's end of its lifeline: what comes over it, and when it is gone.
class LifelineClient {
 public:
  // Each is called from the event loop. on_gone: only after a connection was there; on_unreachable: no
  // address leads to the front end, and that is the end of it.
  struct Hooks {
    std::function<void()> on_connected;
    std::function<void(const rendezvous::lifeline::Signal& signal)> on_signal;
    std::function<void(std::string task)> on_task;
    std::function<void(const std::string& why)> on_gone;
    std::function<void(const std::string& why)> on_unreachable;
  };

  LifelineClient(boost::asio::io_context& context, rendezvous::FrontEndAddress front_end,
                 rendezvous::Authenticator authenticator, rendezvous::lifeline::Hello hello, Hooks hooks,
                 Milliseconds host_timeout = k_host_timeout);
  ~LifelineClient();
  LifelineClient(const LifelineClient&) = delete;
  LifelineClient& operator=(const LifelineClient&) = delete;

  // Tries all addresses at once; the first that shakes hands is it.
  void start();
  // Tells the exit code and calls `told` when the front end has it, or after a second; at once without a
  // connection. No hook is called any more.
  void end(const rendezvous::lifeline::Ended& ended, std::function<void()> told);

 private:
  void conclude(AuthenticationResult result);
  void take(const std::string& payload);

  rendezvous::Authenticator authenticator_;
  rendezvous::lifeline::Hello hello_;
  Hooks hooks_;
  Milliseconds host_timeout_;
  boost::asio::steady_timer timer_;
  FirstDial dial_;
  std::shared_ptr<Connection> connection_;
  std::function<void()> told_;
};

}  // namespace ddprun::net
