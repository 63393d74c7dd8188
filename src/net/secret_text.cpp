#include "net/secret_text.hpp"

#include "net/authenticator.hpp"

namespace ddprun::net {

namespace {

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

std::string make_secret_text() { return to_text(make_random_key()); }

// A purpose in front, so that it is not the key that the rendezvous derives from the same secret.
std::string make_secret_text_from(std::string_view secret) {
  return to_text(derive_key(rendezvous::ProofMethod::front_end, "lifeline " + std::string(secret)));
}

}  // namespace ddprun::net
