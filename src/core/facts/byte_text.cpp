#include "facts/byte_text.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/text.hpp"

namespace ddprun::facts {

std::string escape_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = bytes.starts_with("\\x") ? 0 : utf8_length(bytes);
    if (length == 0) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    text += bytes.substr(0, length);
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::string unescape_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    unsigned char byte = 0;
    const char* const digits = text.data() + 2;
    if (text.size() >= 4 && text.starts_with("\\x") &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      bytes += static_cast<char>(byte);
      text.remove_prefix(4);
    } else {
      bytes += text[0];
      text.remove_prefix(1);
    }
  }
  return bytes;
}

}  // namespace ddprun::facts
