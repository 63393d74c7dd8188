// An agent's end of its lifeline to the ddprun that started it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "net/first_dial.hpp"
#include "rendezvous/lifeline.hpp"

namespace ddprun::net {

class Connection;

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
