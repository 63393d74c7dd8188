#include "options/program_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::options {

namespace {

constexpr std::size_t k_longest_name = 40;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::pair<std::string, std::string> parse_variable(const std::string& text, const std::string& origin) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const bool good = !name.empty() && !is_digit(name.front()) &&
                    std::ranges::all_of(name, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
  if (equals == std::string::npos || !good)
    throw UsageError(fmt::format("{} is not a variable with its value: '{}'", origin, printable(text)),
                     "write it as NAME=value; an exported variable reaches the workers without it");
  return {name, text.substr(equals + 1)};
}

std::string parse_program_name(const std::string& text, const std::string& origin) {
  const bool good =
      !text.empty() && text.size() <= k_longest_name && is_letter(text.front()) &&
      std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; });
  if (!good)
    throw UsageError(fmt::format("{} is not a name of a program: '{}'", origin, printable(text)),
                     "use letters, digits, - and _, a letter first, as in server");
  return text;
}

}  // namespace ddprun::options
