// The secret of a self-launch, as text for an environment variable: 64 hexadecimal digits.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::net {

// From the system's randomness. Throws Error when there is none.
std::string make_secret_text();
// From another secret by a hash: who knows that one knows this, and nobody learns that one from it. The same
// on all hosts.
std::string make_secret_text_from(std::string_view secret);

}  // namespace ddprun::net
