#include "net/authentication.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>
#include <algorithm>
#include <boost/asio/write.hpp>
#include <chrono>

#include "base/error.hpp"
#include "net/sealed_stream.hpp"
#include "net/timers.hpp"

namespace ddprun::net {

using State = rendezvous::HandshakeStep::State;

namespace {

constexpr Milliseconds k_last_words{1000};  // for a refusal to arrive, and the other side to close

}  // namespace

Authentication::Authentication(Tcp::socket socket, rendezvous::Handshake handshake,
                               AuthenticationLimits limits, OnResult on_result,
                               std::function<void()> on_closed)
    : socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      limits_(limits),
      on_result_(std::move(on_result)),
      on_closed_(std::move(on_closed)),
      timer_(socket_.get_executor()) {}

void Authentication::start() {
  watch_time();
  if (std::string greeting = handshake_.start(); !greeting.empty()) write(std::move(greeting));
  read();
}

void Authentication::watch_time() {
  const auto started = std::chrono::steady_clock::now();
  const auto wait_for_all = [started](Authentication& self) {
    call_at(self.timer_, started + self.limits_.whole, [self = self.shared_from_this()] {
      self->fail(fmt::format("{} within {}", self->handshake_.waiting_for(),
                             describe_duration(self->limits_.whole)));
      self->close();
    });
  };
  if (limits_.silence >= limits_.whole) return wait_for_all(*this);
  call_at(timer_, started + limits_.silence, [self = shared_from_this(), wait_for_all] {
    if (!self->handshake_.heard_nothing()) return wait_for_all(*self);
    boost::system::error_code ignored;
    self->socket_.cancel(ignored);  // the read
    self->report(State::foreign, {});
  });
}

void Authentication::cancel() {
  on_closed_ = nullptr;
  close();
}

void Authentication::close() {
  on_result_ = nullptr;
  timer_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  if (const auto on_closed = std::exchange(on_closed_, nullptr)) on_closed();
}

void Authentication::read() {
  socket_.async_read_some(
      boost::asio::buffer(buffer_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
        if (!self->on_result_) return;
        if (error) {
          self->fail(describe_error(error) + " before the peer was authenticated");
          return self->close();
        }
        self->handle({self->buffer_.data(), size});
      });
}

void Authentication::handle(std::string_view bytes) {
  rendezvous::HandshakeStep step = handshake_.feed(bytes);
  if (step.state == State::more) {
    if (!step.send.empty()) write(std::move(step.send));
    return read();
  }
  if (step.state == State::failed) {
    fail(std::move(step.text));
    outgoing_ = std::move(step.send);
    return close_politely();
  }
  outgoing_ = std::move(step.send);
  boost::asio::async_write(socket_, boost::asio::buffer(outgoing_),
                           [self = shared_from_this(), state = step.state, text = std::move(step.text)](
                               const boost::system::error_code& error, std::size_t) mutable {
                             if (!self->on_result_) return;
                             if (error) {
                               self->fail(describe_error(error));
                               return self->close();
                             }
                             self->report(state, std::move(text));
                           });
}

// Writes the bytes. A conversation has at most one write in progress: each side waits for the other's answer.
void Authentication::write(std::string bytes) {
  outgoing_ = std::move(bytes);
  boost::asio::async_write(socket_, boost::asio::buffer(outgoing_),
                           [self = shared_from_this()](const boost::system::error_code&, std::size_t) {
                             // A failed write shows in the read that is under way.
                           });
}

void Authentication::report(State state, std::string text) {
  on_closed_ = nullptr;  // a timer that is past calls its handler in spite of cancel()
  timer_.cancel();
  const OnResult on_result = std::exchange(on_result_, nullptr);
  if (on_result)
    on_result({state, std::move(text), std::move(socket_), rendezvous::to_string(handshake_.method()), true,
               handshake_.keys()});
}

void Authentication::fail(std::string why) {
  const OnResult on_result = std::exchange(on_result_, nullptr);
  if (on_result)
    on_result({State::failed,
               std::move(why),
               Tcp::socket(socket_.get_executor()),
               {},
               !handshake_.heard_nothing(),
               {}});
}

// Closes after reading: closing a socket with unread bytes would make the kernel throw away what the peer has
// not read yet.
void Authentication::close_politely() {
  call_after(timer_, k_last_words, [self = shared_from_this()] { self->close(); });
  boost::asio::async_write(socket_, boost::asio::buffer(outgoing_),
                           [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                             if (error) return self->close();
                             boost::system::error_code ignored;
                             self->socket_.shutdown(Tcp::socket::shutdown_send, ignored);
                             self->drain();
                           });
}

void Authentication::drain() {
  socket_.async_read_some(boost::asio::buffer(buffer_),
                          [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                            if (error) return self->close();
                            self->drain();
                          });
}

namespace {

static_assert(std::tuple_size_v<SecretKey> == crypto_secretbox_KEYBYTES);

// Ends the process: libsodium has no other answer than abort() when there is no randomness.
[[noreturn]] void end_without_randomness() {
  constexpr std::string_view k_words =
      "ddprun: cannot get random numbers from the system (getrandom, /dev/urandom)\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, k_words.data(), k_words.size());
  ::_exit(k_exit_own_failure);
}

void start_sodium() {
  sodium_set_misuse_handler(end_without_randomness);
  if (sodium_init() < 0) throw Error("cannot get random numbers for the handshake from the system");
}

rendezvous::ProofResult seal_with(const SecretKey& key, const std::string& payload) {
  std::string sealed(crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + payload.size(), '\0');
  randombytes_buf(sealed.data(), crypto_secretbox_NONCEBYTES);
  crypto_secretbox_easy(bytes_of(sealed) + crypto_secretbox_NONCEBYTES, bytes_of(payload), payload.size(),
                        bytes_of(sealed), key.data());
  return {true, std::move(sealed)};
}

std::string describe_stranger(rendezvous::ProofMethod method) {
  if (method == rendezvous::ProofMethod::given)
    return "DDPRUN_SECRET differs between the two hosts; set it to the same value on every node";
  const std::string key = method == rendezvous::ProofMethod::key_file
                              ? "the key of this side's key file"
                              : rendezvous::to_string(method) + " of this job";
  return "the peer does not hold " + key;
}

rendezvous::ProofResult open_with(const SecretKey& key, rendezvous::ProofMethod method,
                                  const std::string& sealed) {
  constexpr std::size_t k_overhead = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
  const std::string differs = describe_stranger(method);
  if (sealed.size() < k_overhead) return {false, differs};
  std::string payload(sealed.size() - k_overhead, '\0');
  const int result =
      crypto_secretbox_open_easy(bytes_of(payload), bytes_of(sealed) + crypto_secretbox_NONCEBYTES,
                                 sealed.size() - crypto_secretbox_NONCEBYTES, bytes_of(sealed), key.data());
  if (result != 0) return {false, differs};
  return {true, std::move(payload)};
}

std::string to_text(const SecretKey& key) {
  static constexpr char k_digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : key) {
    text.push_back(k_digits[byte >> 4U]);
    text.push_back(k_digits[byte & 15U]);
  }
  return text;
}

}  // namespace

rendezvous::Authenticator make_key_authenticator(const SecretKey& key, rendezvous::ProofMethod method) {
  start_sodium();
  rendezvous::Authenticator authenticator;
  authenticator.methods = {method};
  authenticator.seal = [key](rendezvous::ProofMethod, const std::string& payload) {
    return seal_with(key, payload);
  };
  authenticator.open = [key, method](rendezvous::ProofMethod, const std::string& sealed) {
    return open_with(key, method, sealed);
  };
  return authenticator;
}

SecretKey derive_key(rendezvous::ProofMethod method, const std::string& secret) {
  start_sodium();
  const std::string text = "ddprun key " + std::to_string(static_cast<int>(method)) + '\0' + secret;
  SecretKey key{};
  crypto_generichash(key.data(), key.size(), bytes_of(text), text.size(), nullptr, 0);
  return key;
}

rendezvous::Authenticator join_authenticators(rendezvous::Authenticator first,
                                              rendezvous::Authenticator second) {
  rendezvous::Authenticator both;
  both.methods = first.methods;
  both.methods.insert(both.methods.end(), second.methods.begin(), second.methods.end());
  const auto choose = [](const rendezvous::Authenticator& a, const rendezvous::Authenticator& b,
                         rendezvous::ProofMethod method) -> const rendezvous::Authenticator& {
    return std::count(a.methods.begin(), a.methods.end(), method) > 0 ? a : b;
  };
  both.seal = [=](rendezvous::ProofMethod method, const std::string& payload) {
    return choose(first, second, method).seal(method, payload);
  };
  both.open = [=](rendezvous::ProofMethod method, const std::string& sealed) {
    return choose(first, second, method).open(method, sealed);
  };
  return both;
}

SecretKey make_random_key() {
  start_sodium();
  SecretKey key;
  randombytes_buf(key.data(), key.size());
  return key;
}

rendezvous::KeyExchange make_key_exchange() {
  static_assert(std::tuple_size_v<rendezvous::PublicKey> == crypto_kx_PUBLICKEYBYTES);
  static_assert(std::tuple_size_v<SecretKey> == crypto_kx_SECRETKEYBYTES);
  static_assert(std::tuple_size_v<SecretKey> == crypto_kx_SESSIONKEYBYTES);
  start_sodium();
  rendezvous::KeyExchange key_exchange;
  SecretKey secret;
  crypto_kx_keypair(key_exchange.public_key.data(), secret.data());
  key_exchange.derive = [own = key_exchange.public_key, secret](
                            rendezvous::HandshakeRole role,
                            const rendezvous::PublicKey& peer) -> std::optional<rendezvous::SessionKeys> {
    rendezvous::SessionKeys keys;
    const auto derive = role == rendezvous::HandshakeRole::member ? crypto_kx_client_session_keys
                                                                  : crypto_kx_server_session_keys;
    if (derive(keys.receive.data(), keys.send.data(), own.data(), secret.data(), peer.data()) != 0)
      return std::nullopt;
    return keys;
  };
  return key_exchange;
}

std::string make_secret_text() { return to_text(make_random_key()); }

// Puts a purpose in front, so that it is not the key that the rendezvous derives from the same secret.
std::string make_secret_text_from(std::string_view secret) {
  return to_text(derive_key(rendezvous::ProofMethod::front_end, "lifeline " + std::string(secret)));
}

}  // namespace ddprun::net
