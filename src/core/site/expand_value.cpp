#include "site/expand_value.hpp"

#include <cctype>
#include <optional>

namespace ddprun::site {

namespace {

bool is_name_character(char c, bool first) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '_' || (first ? std::isalpha(byte) : std::isalnum(byte)) != 0;
}

std::size_t name_length(const std::string& text, std::size_t at) {
  std::size_t length = 0;
  while (at + length < text.size() && is_name_character(text[at + length], length == 0)) ++length;
  return length;
}

// A name in the text at '$': how many characters it takes, the name, and the text where it is not set. Length
// 0: there is none.
struct Reference {
  std::size_t length = 0;
  std::string name;
  std::optional<std::string> otherwise{};
};

Reference find_reference(const std::string& text, std::size_t dollar) {
  const bool braces = text.compare(dollar + 1, 1, "{") == 0;
  const std::size_t start = dollar + (braces ? 2 : 1);
  const std::size_t length = name_length(text, start);
  if (length == 0) return {};
  const std::string name = text.substr(start, length);
  if (!braces) return {length + 1, name};
  const std::size_t after = start + length;
  const std::size_t end = text.find('}', after);
  if (end == after) return {length + 3, name};
  if (end == std::string::npos || text.compare(after, 2, ":-") != 0) return {};
  return {end + 1 - dollar, name, text.substr(after + 2, end - after - 2)};
}

bool is_home(const std::string& text, std::size_t at) {
  const bool starts = at == 0 || text[at - 1] == ':';
  const bool ends = at + 1 == text.size() || text[at + 1] == '/' || text[at + 1] == ':';
  return text[at] == '~' && starts && ends;
}

}  // namespace

ExpandedValue expand_value(const std::string& text, const facts::Environment& environment) {
  ExpandedValue result;
  const auto append_variable = [&](const Reference& reference) {
    const auto found = environment.find(reference.name);
    const bool is_set = found != environment.end();
    if (reference.otherwise && (!is_set || found->second.empty())) {
      result.text += *reference.otherwise;
    } else if (is_set) {
      result.text += found->second;
    } else if (result.missing.empty()) {
      result.missing = reference.name;
    }
  };
  for (std::size_t at = 0; at < text.size();) {
    const Reference reference = text[at] == '$' ? find_reference(text, at) : Reference{};
    if (reference.length > 0) {
      append_variable(reference);
      at += reference.length;
    } else if (is_home(text, at)) {
      append_variable({1, "HOME"});
      ++at;
    } else {
      result.text += text[at];
      at += text.compare(at, 2, "$$") == 0 ? 2 : 1;
    }
  }
  return result;
}

}  // namespace ddprun::site
