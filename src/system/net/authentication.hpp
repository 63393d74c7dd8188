// Shakes hands over a connected socket, within a time limit.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "net/tcp_tools.hpp"
#include "rendezvous/handshake.hpp"

namespace ddprun::net {

struct AuthenticationLimits {
  Milliseconds whole;  // for the whole conversation
  Milliseconds
      silence;  // a peer that has said nothing by then is foreign; as long as `whole`: it fails instead
};

struct AuthenticationResult {
  rendezvous::HandshakeStep::State state =
      rendezvous::HandshakeStep::State::failed;  // done, failed or foreign
  std::string text;                              // same as in HandshakeStep
  Tcp::socket socket;                            // open when done or foreign
  std::string proof;                             // done: by what the peer proved itself, "munge"
  bool answered = false;                         // the peer has said something
  rendezvous::SessionKeys keys{};                // done: for what is said from now on
};

// Keeps itself alive while it works. `on_result` is called once, from the event loop, unless cancelled. After
// a failure the last words are still delivered, within a second; `on_closed` is called once that has closed
// the socket.
class Authentication : public std::enable_shared_from_this<Authentication> {
 public:
  using OnResult = std::function<void(AuthenticationResult)>;

  Authentication(Tcp::socket socket, rendezvous::Handshake handshake, AuthenticationLimits limits,
                 OnResult on_result, std::function<void()> on_closed = {});
  void start();
  void cancel();  // no hook is called any more

 private:
  void watch_time();
  void read();
  void write(std::string bytes);
  void handle(std::string_view bytes);
  void report(rendezvous::HandshakeStep::State state, std::string text);
  void fail(std::string why);
  void close();
  void close_politely();
  void drain();

  Tcp::socket socket_;
  rendezvous::Handshake handshake_;
  AuthenticationLimits limits_;
  OnResult on_result_;
  std::function<void()> on_closed_;
  boost::asio::steady_timer timer_;
  std::array<char, 4096> buffer_{};
  std::string outgoing_;
};

}  // namespace ddprun::net
