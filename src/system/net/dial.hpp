// Connects to one numeric address and shakes hands there.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "net/authentication.hpp"

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

}  // namespace ddprun::net
