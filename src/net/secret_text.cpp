#include "ddprun/net/secret_text.hpp"

#include <sodium.h>

#include <charconv>

#include "ddprun/base/error.hpp"

namespace ddprun {

namespace {

// Keeps keys made here apart from any other use of the same secret.
constexpr std::string_view k_purpose = "ddprun lifeline";

}  // namespace

SecretKey make_random_key() { return make_nonce(); }

SecretKey make_key_from(std::string_view text) {
  if (sodium_init() < 0) throw Error("cannot get random numbers for the handshake");
  SecretKey key{};
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     reinterpret_cast<const unsigned char*>(k_purpose.data()), k_purpose.size());
  return key;
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

std::optional<SecretKey> parse_key_text(std::string_view text) {
  SecretKey key{};
  if (text.size() != 2 * key.size()) return std::nullopt;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, key[i], 16).ptr != digits + 2) return std::nullopt;
  }
  return key;
}

}  // namespace ddprun
