// Secret keys as text for an environment variable, and made from other secrets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ddprun/net/key_prover.hpp"

namespace ddprun {

// From the system's randomness. Throws Error when there is none.
SecretKey make_random_key();
// A keyless hash: who knows the text knows the key, and nobody else learns the text from it. The same on all
// hosts.
SecretKey make_key_from(std::string_view text);

// 64 hexadecimal digits, and back; nothing for anything else.
std::string to_text(const SecretKey& key);
std::optional<SecretKey> parse_key_text(std::string_view text);

}  // namespace ddprun
