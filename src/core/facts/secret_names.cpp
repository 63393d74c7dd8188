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
    {"pass", "auth", "pat", "pwd", "pw", "sig", "signature", "cred", "creds", "psk", "passcode", "dsn"});

// Anywhere among the parts of a name, as in --secret-access, unless it is a file's.
constexpr auto k_strong_parts = std::to_array<std::string_view>(
    {"secret", "secrets", "password", "passwd", "passphrase", "credential", "credentials"});
constexpr auto k_file_parts = std::to_array<std::string_view>({"file", "path", "dir", "folder", "name"});

// Behind one of k_endings, as in --token-file-content.
constexpr auto k_value_parts =
    std::to_array<std::string_view>({"content", "contents", "value", "string", "text", "access"});

// Words of their own that end as a password's name does.
constexpr auto k_no_passwords = std::to_array<std::string_view>({"bypass", "compass", "overpass"});

// Headers of HTTP requests that contain secrets.
constexpr auto k_secret_headers = std::to_array<std::string_view>(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "x-auth-key",
     "private-token", "job-token", "x-goog-api-key", "x-vault-token", "x-amz-security-token"});

// The shell's directories.
constexpr auto k_harmless = std::to_array<std::string_view>({"PWD", "OLDPWD"});

template <typename List>
bool is_any(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool ends_in_short_word(std::string_view lower) {
  return is_any(k_last_parts, lower.substr(lower.find_last_of("_-.") + 1));
}

bool ends_in_any(const auto& list, std::string_view name) {
  return std::ranges::any_of(list, [&](std::string_view ending) { return name.ends_with(ending); });
}

// DBPASS, MYSQLPWD
bool ends_in_password(std::string_view lower) {
  return (lower.ends_with("pass") && !ends_in_any(k_no_passwords, lower)) ||
         (lower.ends_with("pwd") && !is_any(k_harmless, to_upper(lower)));
}

bool names_value_of_secret(const std::string& lower) {
  std::string text = lower;
  std::ranges::replace_if(
      text, [](char c) { return c == '_' || c == '.'; }, '-');
  const std::vector<std::string> parts = split(text, '-');
  if (is_any(k_value_parts, parts.back())) {
    return std::ranges::any_of(parts, [](const std::string& part) { return ends_in_any(k_endings, part); });
  }
  return !is_any(k_file_parts, parts.back()) &&
         std::ranges::any_of(parts, [](const std::string& part) { return is_any(k_strong_parts, part); });
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
         ends_in_short_word(to_lower(name)) || ends_in_password(to_lower(name));
}

bool is_secret_option(std::string_view name) {
  if (is_variable(name)) return is_secret_variable(name);
  const std::string lower = to_lower(name);
  return ends_in_short_word(lower) || ends_in_password(lower) || names_value_of_secret(lower) ||
         ends_in_any(k_endings, lower);
}

bool is_secret_header(std::string_view name) { return is_any(k_secret_headers, to_lower(name)); }

}  // namespace ddprun::facts
