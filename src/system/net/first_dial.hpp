// Dials all addresses of a front end at once, and uses the first that authenticates.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/dial.hpp"
#include "rendezvous/lifeline.hpp"

namespace ddprun::net {

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
