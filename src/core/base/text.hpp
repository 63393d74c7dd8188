// Small text tools with strict rules: a number is the whole text or it is nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Pieces between separators; "a,,b" has an empty middle piece; "" gives one empty piece.
std::vector<std::string> split(std::string_view text, char separator);
// Returns the nonempty pieces between runs of blanks, tabs and line ends.
std::vector<std::string> split_words(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
// Returns "1 node", "3 nodes".
std::string count_of(std::int64_t count, std::string_view noun);
// Returns "restart 2 of 3", or "attempt 4, 1 of 3 restarts used" if others than restarts were made.
std::string describe_attempt(int attempt, int restarts, int most_restarts);
std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);

// Parses the whole text as a decimal number (an optional leading '-'); nullopt on any other character or
// overflow.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// Returns the text as one word of a POSIX shell; unchanged when nothing in it needs quoting.
std::string shell_quote(std::string_view text);
std::string shell_quote(const std::vector<std::string>& words);

// Returns the candidate closest to `word` (edit distance at most 3 and below half its length), for "did you
// mean".
std::optional<std::string> closest_match(std::string_view word, const std::vector<std::string>& candidates);

// Returns "n3" for "n3.cluster.example"; a numeric address is returned whole.
std::string_view short_host_name(std::string_view name);
// Reports whether both name the same machine by short name, ignoring case.
bool same_host(std::string_view a, std::string_view b);

// Returns the length of the well-formed UTF-8 sequence at the start of `text` (no overlong forms, no
// surrogates, nothing past U+10FFFF); 0 when there is none.
std::size_t utf8_length(std::string_view text);

// Replaces control bytes and bytes that are not UTF-8 by \xNN, so that a peer's text cannot control the
// terminal.
std::string printable(std::string_view text, std::size_t max_length = 200);

// Does the same without a limit, and keeps line ends.
std::string printable_lines(std::string_view text);

// Escapes for SVG and HTML: printable, cut after `longest` bytes, and safe as text and in an attribute
// between double quotes.
std::string escape_markup(std::string_view text, std::size_t longest = 400);

}  // namespace ddprun
