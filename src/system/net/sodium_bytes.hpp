// Text as the bytes that libsodium reads and writes.
#pragma once

#include <string>
#include <string_view>

namespace ddprun::net {

inline unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
inline const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace ddprun::net
