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
// Non-empty pieces between runs of blanks, tabs and line ends.
std::vector<std::string> split_words(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
// "1 node", "3 nodes".
std::string count_of(std::int64_t count, std::string_view noun);
// "restart 2 of 3", or "attempt 4, 1 of 3 restarts used" where others than restarts were made.
std::string describe_attempt(int attempt, int restarts, int most_restarts);
std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);

// The whole text as a decimal number (an optional leading '-'); nothing on any other character or overflow.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// The text as one word of a POSIX shell; unchanged when nothing in it needs quoting.
std::string shell_quote(std::string_view text);
std::string shell_quote(const std::vector<std::string>& words);

// The candidate closest to `word` (edit distance at most 3 and below half its length), for "did you mean".
std::optional<std::string> closest_match(std::string_view word, const std::vector<std::string>& candidates);

// "n3" of "n3.cluster.example"; a numeric address is returned whole.
std::string_view short_host_name(std::string_view name);
// Same machine by short name, ignoring case.
bool same_host(std::string_view a, std::string_view b);

// Length of the well-formed UTF-8 sequence at the start of `text` (no overlong forms, no surrogates, nothing
// past U+10FFFF); 0 when there is none.
std::size_t utf8_length(std::string_view text);

// Control bytes and bytes that are not UTF-8 replaced by \xNN, so that a peer's text cannot drive the
// terminal.
std::string printable(std::string_view text, std::size_t max_length = 200);

// Whole, and line ends stay.
std::string printable_lines(std::string_view text);

// For SVG and HTML: printable, cut after `longest` bytes, and safe as text and in an attribute between double
// quotes.
std::string escape_markup(std::string_view text, std::size_t longest = 400);

}  // namespace ddprun
