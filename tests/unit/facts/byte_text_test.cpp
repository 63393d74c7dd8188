#include "facts/json_reader.hpp"

#include "base/text.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("text is written as it is and other bytes by number") {
  CHECK(escape_bytes("a\\b gr\xc3\xbc\xc3\x9f") == "a\\b gr\xc3\xbc\xc3\x9f");
  CHECK(escape_bytes("\xff\xc3") == "\\xff\\xc3");
  CHECK(escape_bytes("\\x41") == "\\x5cx41");
  CHECK(unescape_bytes("\\x41\\xzz\\x4") == "A\\xzz\\x4");
}

TEST_CASE("all bytes and all short mixtures of backslashes come back") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  CHECK(unescape_bytes(escape_bytes(all)) == all);
  const std::string alphabet = "\\x4\xff";
  for (int number = 0; number < 4096; ++number) {
    std::string bytes;
    for (int rest = number, i = 0; i < 6; ++i, rest /= 4)
      bytes += alphabet[static_cast<std::size_t>(rest % 4)];
    const std::string text = escape_bytes(bytes);
    REQUIRE(unescape_bytes(text) == bytes);
    for (std::size_t i = 0; i < text.size(); ++i) REQUIRE(utf8_length(std::string_view(text).substr(i)) == 1);
  }
}
