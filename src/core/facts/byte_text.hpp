// Any bytes as UTF-8 text and back, for formats that hold text only.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::facts {

// Returns valid UTF-8 unchanged; each other byte as \xNN, and a backslash before an x as \x5c.
std::string escape_bytes(std::string_view bytes);
// Reverses it: unescape_bytes(escape_bytes(b)) == b for all b; a \x without two hexadecimal digits stays as
// it is.
std::string unescape_bytes(std::string_view text);

}  // namespace ddprun::facts
