// Connects to one numeric address, or to the first of several, and shakes hands there.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/authentication.hpp"
#include "rendezvous/lifeline.hpp"

namespace ddprun::net {

struct DialLimits {
  Milliseconds connect{3000};
  Milliseconds handshake{20000};   // a coordinator that thousands greet at once needs a while
  LinkLimit link{k_host_timeout};  // passed to watch_connection
};

// Keeps itself alive while it works; `on_result` is called once, from the event loop, unless cancelled.
class Dial : public std::enable_shared_from_this<Dial> {
 public:
  Dial(boost::asio::io_context& context, rendezvous::Handshake handshake, DialLimits limits,
       Authentication::OnResult on_result);
  void start(const std::string& address, int port);
  void cancel();

 private:
  void fail(const std::string& why);

  Tcp::socket socket_;
  boost::asio::steady_timer timer_;
  rendezvous::Handshake handshake_;
  DialLimits limits_;
  Authentication::OnResult on_result_;
  std::weak_ptr<Authentication> authentication_;
};

// Dials all addresses of a front end at once, and uses the first that authenticates.
class FirstDial {
 public:
  // Handler called once, from the event loop, unless cancelled: done; or failed, with what each address said.
  using OnResult = std::function<void(AuthenticationResult)>;

  FirstDial(boost::asio::io_context& context, rendezvous::FrontEndAddress front_end,
            rendezvous::Authenticator authenticator, Milliseconds host_timeout, OnResult on_result);
  ~FirstDial() { cancel(); }
  FirstDial(const FirstDial&) = delete;
  FirstDial& operator=(const FirstDial&) = delete;

  void start();
  void cancel();

 private:
  void conclude(std::size_t dial, AuthenticationResult result);

  boost::asio::io_context& context_;
  rendezvous::FrontEndAddress front_end_;
  rendezvous::Authenticator authenticator_;
  Milliseconds host_timeout_;
  OnResult on_result_;
  std::vector<std::shared_ptr<Dial>> dials_;  // empty where one is over
  std::vector<std::string> problems_;
};

}  // namespace ddprun::net
