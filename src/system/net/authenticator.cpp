#include "net/authenticator.hpp"

#include <sodium.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "net/sodium_bytes.hpp"

namespace ddprun::net {

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
