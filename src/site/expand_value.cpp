#include "site/expand_value.hpp"

#include <cctype>

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

// A name in the text at '$': how many characters it takes, and the name. Length 0: there is none.
struct Reference {
  std::size_t length = 0;
  std::string name;
};

Reference find_reference(const std::string& text, std::size_t dollar) {
  const bool braces = text.compare(dollar + 1, 1, "{") == 0;
  const std::size_t start = dollar + (braces ? 2 : 1);
  const std::size_t length = name_length(text, start);
  if (length == 0 || (braces && text.compare(start + length, 1, "}") != 0)) return {};
  return {length + (braces ? 3U : 1U), text.substr(start, length)};
}

bool is_home(const std::string& text, std::size_t at) {
  const bool starts = at == 0 || text[at - 1] == ':';
  const bool ends = at + 1 == text.size() || text[at + 1] == '/' || text[at + 1] == ':';
  return text[at] == '~' && starts && ends;
}

}  // namespace

ExpandedValue expand_value(const std::string& text, const facts::Environment& environment) {
  ExpandedValue result;
  const auto append_variable = [&](const std::string& name) {
    const auto found = environment.find(name);
    if (found != environment.end()) {
      result.text += found->second;
    } else if (result.missing.empty()) {
      result.missing = name;
    }
  };
  for (std::size_t at = 0; at < text.size();) {
    const Reference reference = text[at] == '$' ? find_reference(text, at) : Reference{};
    if (reference.length > 0) {
      append_variable(reference.name);
      at += reference.length;
    } else if (is_home(text, at)) {
      append_variable("HOME");
      ++at;
    } else {
      result.text += text[at];
      at += text.compare(at, 2, "$$") == 0 ? 2 : 1;
    }
  }
  return result;
}

}  // namespace ddprun::site
