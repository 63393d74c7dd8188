// Names that mark their value as a secret.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "facts/secrets.hpp"

namespace ddprun::facts {

namespace {

// Anywhere in a variable's name.
constexpr auto k_marks = std::to_array<std::string_view>(
    {"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE", "BEARER", "JWT",
     "AUTHORIZATION", "COMMENT"});  // sbatch --comment

// Last words of the names of such options and fields.
constexpr auto k_endings = std::to_array<std::string_view>(
    {"key", "token", "secret", "password", "passwd", "passphrase", "credential", "credentials", "cookie",
     "jwt", "bearer", "authorization", "comment"});

// Too short to be looked for inside a word: they are the last part of a name, as in DB_PASS and --gh-pat.
constexpr auto k_last_parts = std::to_array<std::string_view>(
    {"pass", "auth", "pat", "pwd", "sig", "signature", "cred", "creds", "psk", "passcode", "dsn"});

// The shell's directories.
constexpr auto k_harmless = std::to_array<std::string_view>({"PWD", "OLDPWD"});

template <typename List>
bool is_any(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool ends_in_short_word(std::string_view lower) {
  return is_any(k_last_parts, lower.substr(lower.find_last_of("_-.") + 1));
}

bool is_variable(std::string_view name) {
  return !name.empty() &&
         std::ranges::none_of(name, [](char c) { return (c >= 'a' && c <= 'z') || c == '-' || c == '.'; });
}

}  // namespace

bool is_secret_variable(std::string_view name) {
  if (is_any(k_harmless, name)) return false;
  if (name == "OMPI_MCA_orte_precondition_transports") return true;
  const std::string upper = to_upper(name);
  return std::ranges::any_of(k_marks,
                             [&](std::string_view mark) { return upper.find(mark) != std::string::npos; }) ||
         ends_in_short_word(to_lower(name));
}

bool is_secret_option(std::string_view name) {
  if (is_variable(name)) return is_secret_variable(name);
  const std::string lower = to_lower(name);
  return ends_in_short_word(lower) ||
         std::ranges::any_of(k_endings, [&](std::string_view ending) { return lower.ends_with(ending); });
}

}  // namespace ddprun::facts
