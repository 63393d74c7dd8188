// Authenticates the peer of a connected socket, within a time limit, by what this job's processes share.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "net/tcp_tools.hpp"
#include "rendezvous/handshake.hpp"

namespace ddprun::net {

// Proves membership with a secret that all agents of the user, or of the launch, can read.

// Seals with authenticated encryption (XSalsa20-Poly1305), so that only who holds the key can read or make a
// proof. Throws Error when the system gives no randomness.
rendezvous::Authenticator make_key_authenticator(
    const SecretKey& key, rendezvous::ProofMethod method = rendezvous::ProofMethod::key_file);

// Derives the key from a job's secret (BLAKE2b); the same secret gives another key for another method.
SecretKey derive_key(rendezvous::ProofMethod method, const std::string& secret);

// Uses the first authenticator's methods first; both keep their own.
rendezvous::Authenticator join_authenticators(rendezvous::Authenticator first,
                                              rendezvous::Authenticator second);

// Makes an unpredictable key, never the same twice.
SecretKey make_random_key();

// Makes a new pair of X25519 keys (libsodium's crypto_kx; the member is its client).
rendezvous::KeyExchange make_key_exchange();

// Makes the secret of a self-launch, as text for an environment variable: 64 hexadecimal digits.
std::string make_secret_text();
// Makes one from another secret by a hash: it follows from that secret, which cannot be derived from it. The
// same on all hosts.
std::string make_secret_text_from(std::string_view secret);

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
