// Secrets in a text, recognised by the name they are given to, by their position, or by their look.
#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"
#include "facts/secrets.hpp"

namespace ddprun::facts {

namespace {

constexpr std::size_t k_none = std::string_view::npos;
constexpr std::size_t k_shortest_token = 20;
constexpr std::string_view k_blanks = " \t\r\n";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_name_character(char c) { return is_letter_or_digit(c) || c == '_' || c == '-' || c == '.'; }

bool is_token_character(char c) {
  return is_name_character(c) || c == '+' || c == '/' || c == '=' || c == '~';
}

struct Part {
  std::size_t begin;
  std::size_t end;
};

// Replaces every part that `find` finds, which looks from a place on.
template <typename Find>
std::string replace_parts(std::string_view text, const Find& find) {
  std::string result;
  std::size_t done = 0;
  while (const std::optional<Part> part = find(text, done)) {
    result.append(text.substr(done, part->begin - done)).append(k_removed_secret);
    done = part->end;
  }
  return result.append(text.substr(done));
}

std::size_t end_of_value(std::string_view text, std::size_t start, std::string_view ends) {
  if (start < text.size() && (text[start] == '"' || text[start] == '\'')) {
    const std::size_t quote = text.find(text[start], start + 1);
    return quote == k_none ? text.size() : quote + 1;
  }
  return std::min(text.find_first_of(ends, start), text.size());
}

std::string_view name_before(std::string_view text, std::size_t end) {
  std::size_t start = end;
  while (start > 0 && is_name_character(text[start - 1])) --start;
  return text.substr(start, end - start);
}

// Finds NAME=value.
std::optional<Part> find_assigned(std::string_view text, std::size_t from) {
  for (std::size_t equals = text.find('=', from); equals != k_none; equals = text.find('=', equals + 1)) {
    if (!is_secret_option(name_before(text, equals))) continue;
    return Part{equals + 1, end_of_value(text, equals + 1, " \t\r\n,;&\"'")};
  }
  return std::nullopt;
}

// "name": "value" as JSON has it, also with escaped quotes, and Name: value or Name:value of a
// header
std::optional<Part> find_field(std::string_view text, std::size_t from) {
  for (std::size_t colon = text.find(':', from); colon != k_none; colon = text.find(':', colon + 1)) {
    const std::size_t last = text.substr(0, colon).find_last_not_of(" \\\"'");
    const std::size_t value = text.find_first_not_of(" \\", colon + 1);
    if (last == k_none || value == k_none) continue;
    const std::string_view name = name_before(text, last + 1);
    const bool joined = last + 1 == colon && value == colon + 1;  // without spaces or quotes, like host:port
    if (joined ? !is_secret_header(name) : !is_secret_option(name)) continue;
    return Part{value, end_of_value(text, value, "\r\n,;}\"'")};
  }
  return std::nullopt;
}

// Finds the password of redis://user:password@host, between the colon and the last @ of the authority;
// without a colon a token, https://TOKEN@github.com/a/b, which is longer than a user's name.
std::optional<Part> find_url_password(std::string_view text, std::size_t from) {
  for (std::size_t url = text.find("://", from); url != k_none; url = text.find("://", url + 3)) {
    const std::size_t start = url + 3;
    const std::string_view authority =
        text.substr(start, std::min(text.find_first_of("/ \t\r\n\"'", start), text.size()) - start);
    const std::size_t at = authority.rfind('@');
    const std::size_t colon = authority.find(':');
    if (at == k_none) continue;
    if (colon < at) return Part{start + colon + 1, start + at};
    if (at >= k_shortest_token) return Part{start, start + at};
  }
  return std::nullopt;
}

Part word_at(std::string_view text, std::size_t start) {
  return {start, std::min(text.find_first_of(k_blanks, start), text.size())};
}

// Finds curl -u user:password.
std::optional<Part> find_user(std::string_view text, std::size_t from) {
  for (const std::string_view option : {"-u ", "--user ", "--user=", "--proxy-user "}) {
    for (std::size_t at = text.find(option, from); at != k_none; at = text.find(option, at + 1)) {
      if (at > 0 && text[at - 1] != ' ') continue;
      const Part word = word_at(text, at + option.size());
      const std::size_t colon = text.find(':', word.begin);
      if (colon < word.end) return Part{colon + 1, word.end};
    }
  }
  return std::nullopt;
}

// Finds machine h login u password x: netrc(5).
std::optional<Part> find_login(std::string_view text, std::size_t from) {
  constexpr std::string_view k_field = "password";
  const std::size_t login = text.find("login ");
  for (std::size_t at = text.find(k_field, std::max(from, std::min(login, text.size()))); at != k_none;
       at = text.find(k_field, at + 1)) {
    const std::size_t value = text.find_first_not_of(k_blanks, at + k_field.size());
    if (value != k_none && value > at + k_field.size()) return word_at(text, value);
  }
  return std::nullopt;
}

// Tokens that their issuers mark, so that they can be found: what they begin with, and how long they are at
// least. docs.github.com "About authentication to GitHub", huggingface.co "User access tokens",
// docs.aws.amazon.com "IAM identifiers", docs.gitlab.com "Token overview"; eyJ is {" of a JWT. Others are in
// the same way their issuers'.
struct MarkedToken {
  std::string_view begin;
  std::size_t size;
};
constexpr auto k_tokens = std::to_array<MarkedToken>(
    {{"hf_", k_shortest_token},      {"ghp_", k_shortest_token},      {"nvapi-", k_shortest_token},
     {"pypi-", k_shortest_token},    {"dckr_pat_", k_shortest_token}, {"hvs.", k_shortest_token},
     {"ya29.", k_shortest_token},    {"dop_v1_", k_shortest_token},   {"sk_live_", k_shortest_token},
     {"rk_live_", k_shortest_token}, {"gsk_", k_shortest_token},      {"SG.", k_shortest_token},
     {"xapp-", k_shortest_token},    {"gho_", k_shortest_token},      {"ghu_", k_shortest_token},
     {"ghs_", k_shortest_token},     {"ghr_", k_shortest_token},      {"github_pat_", k_shortest_token},
     {"AKIA", k_shortest_token},     {"ASIA", k_shortest_token},      {"sk-", k_shortest_token},
     {"xoxb-", k_shortest_token},    {"xoxp-", k_shortest_token},     {"AIza", 30},
     {"glpat-", k_shortest_token},   {"npm_", k_shortest_token},      {"eyJ", 24}});

std::size_t end_of_token(std::string_view text, std::size_t start) {
  while (start < text.size() && is_token_character(text[start])) ++start;
  return start;
}

std::optional<Part> find_token(std::string_view text, std::size_t from) {
  for (std::size_t start = from; start < text.size(); ++start) {
    if (start > 0 && (is_letter_or_digit(text[start - 1]) || text[start - 1] == '_')) continue;
    const std::string_view rest = text.substr(start);
    const auto* const found = std::ranges::find_if(
        k_tokens, [&](const MarkedToken& token) { return rest.starts_with(token.begin); });
    if (found == k_tokens.end()) continue;
    const std::size_t end = end_of_token(text, start);
    if (end - start >= found->size) return Part{start, end};
  }
  return std::nullopt;
}

// Finds Bearer TOKEN anywhere in the text (RFC 6750, 2.1); a shorter word is none.
std::optional<Part> find_bearer(std::string_view text, std::size_t from) {
  constexpr std::size_t k_shortest = 6;
  constexpr std::string_view k_word = "bearer ";
  const std::string lower = to_lower(text);
  for (std::size_t word = lower.find(k_word, from); word != k_none; word = lower.find(k_word, word + 1)) {
    const Part token{word + k_word.size(), end_of_token(text, word + k_word.size())};
    if (token.end >= token.begin + k_shortest) return token;
  }
  return std::nullopt;
}

// Finds a key of RFC 7468, to the end of the text if the end of the key is missing.
std::optional<Part> find_private_key(std::string_view text, std::size_t from) {
  constexpr std::string_view k_mark = "PRIVATE KEY-----";
  const std::size_t mark = text.find(k_mark, std::min(text.find("-----BEGIN", from), text.size()));
  if (mark == k_none) return std::nullopt;
  return Part{mark + k_mark.size(), std::min(text.find("-----END", mark), text.size())};
}

}  // namespace

std::string mask_text(std::string_view text) {
  std::string masked = replace_parts(text, find_assigned);
  for (const auto& find :
       {find_field, find_url_password, find_user, find_login, find_token, find_bearer, find_private_key}) {
    masked = replace_parts(masked, find);
  }
  return masked;
}

}  // namespace ddprun::facts
