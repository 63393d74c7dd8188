#include "base/markup.hpp"

#include "base/text.hpp"

namespace ddprun {

std::string escape_markup(std::string_view text, std::size_t longest) {
  std::string escaped;
  for (const char c : printable(text, longest)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace ddprun
