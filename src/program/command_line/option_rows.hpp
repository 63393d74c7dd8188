// Parts of the option table's rows: kinds of rows, and values from the text given.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "base/text.hpp"
#include "command_line/option_table.hpp"
#include "options/shell_words.hpp"

namespace ddprun::command_line::rows {

using enum OptionValue;
using enum OptionSource;
using enum OptionGroup;
using enum Completes;
using Apply = void (*)(Draft& draft, const Given& given);

constexpr OptionEntry flag(const char* name, OptionSource source, OptionGroup group, const char* help,
                           Apply apply) {
  return {name, '\0', none, "", source, group, nothing, "", help, apply};
}
constexpr OptionEntry value(const char* name, const char* metavar, OptionSource source, OptionGroup group,
                            const char* help, Apply apply) {
  return {name, '\0', required, metavar, source, group, nothing, "", help, apply};
}
constexpr OptionEntry file_value(const char* name, const char* metavar, OptionSource source,
                                 OptionGroup group, const char* help, Apply apply) {
  return {name, '\0', required, metavar, source, group, file, "", help, apply};
}
constexpr OptionEntry word_value(const char* name, const char* metavar, const char* choices,
                                 OptionSource source, OptionGroup group, const char* help, Apply apply) {
  return {name, '\0', required, metavar, source, group, words, choices, help, apply};
}
// Makes a row that may be given without a value: then it has the first of the choices, or "".
constexpr OptionEntry optional_value(const char* name, const char* metavar, const char* choices,
                                     OptionSource source, OptionGroup group, const char* help, Apply apply) {
  return {name,    '\0', optional, metavar, source, group, *choices == '\0' ? nothing : words,
          choices, help, apply};
}
constexpr OptionEntry with_letter(char letter, OptionEntry option) {
  option.letter = letter;
  return option;
}

constexpr std::int64_t k_most = std::numeric_limits<int>::max();

// --nnodes=$NODES where NODES is not set.
inline UsageError no_value(const Given& given) {
  return UsageError(given.origin + " has no value",
                    "the variable that should give it may not be set: set it, or leave the option out");
}

inline UsageError not_a(const Given& given, std::string_view thing, std::string hint) {
  if (given.value.empty()) return no_value(given);
  return UsageError(fmt::format("{} is not {}: '{}'", given.origin, thing, printable(given.value)),
                    std::move(hint));
}

// Throws unless `good`. `what` follows the origin: "is below one second".
inline void require(bool good, const Given& given, const char* what, const char* hint) {
  if (!good) throw UsageError(fmt::format("{} {}", given.origin, what), hint);
}

inline constexpr const char* k_own_folder = "name a folder that every node has for itself";
// Takes a path that begins at the root.
inline std::string absolute_from(const Given& given, const char* hint) {
  require(given.value.starts_with('/'), given, "needs an absolute path", hint);
  return given.value;
}

inline Sourced<int> number_from(const Given& given, std::int64_t most, const char* thing, const char* hint) {
  const auto number = parse_integer(given.value);
  if (!number || *number < 0 || *number > most) throw not_a(given, thing, hint);
  return {static_cast<int>(*number), given.origin};
}

inline Sourced<Milliseconds> time_from(const Given& given) {
  const auto time = parse_duration(given.value);
  if (!time) throw not_a(given, "a time", "give seconds, or a number with ms, s, m or h, as in 90s");
  return {*time, given.origin};
}

// The same, of that length at least. `below`: what is said of a shorter one.
inline Sourced<Milliseconds> time_from(const Given& given, Milliseconds least, const char* below,
                                       const char* hint) {
  Sourced<Milliseconds> time = time_from(given);
  require(time.value >= least, given, below, hint);
  return time;
}

inline std::string text_from(const Given& given, const char* what, const char* hint) {
  require(!given.value.empty(), given, what, hint);
  return given.value;
}
inline std::string file_from(const Given& given) {
  return text_from(given, "names no file", "give the path of a file");
}
inline std::string folder_from(const Given& given) {
  return text_from(given, "names no folder", "give the path of a folder");
}

// Returns the position of the value among the words.
inline std::size_t choice_from(const Given& given, const std::vector<std::string>& words) {
  const auto word = std::ranges::find(words, given.value);
  if (word == words.end()) {
    const auto match = closest_match(given.value, words);
    throw not_a(given, "one of " + join(words, ", "),
                match ? fmt::format("did you mean {}?", *match) : "give one of them");
  }
  return static_cast<std::size_t>(word - words.begin());
}
inline std::size_t choice_from(const Given& given) { return choice_from(given, split_words(given.choices)); }
// Returns the value of an enumeration whose values stand in the order of the row's choices.
template <class Enum>
Sourced<Enum> enum_from(const Given& given) {
  return {static_cast<Enum>(choice_from(given)), given.origin};
}

// Returns the words of a command that runs without a shell.
inline Sourced<std::vector<std::string>> program_from(const Given& given) {
  return {options::split_shell_words(given.value, given.origin,
                                     "give a program and its arguments; for a shell: \"sh -c '...'\""),
          given.origin};
}

template <class Parse>
auto parsed(const Given& given, Parse parse) {
  return sourced(parse(given.value, given.origin), given.origin);
}

inline void note(Draft& draft, const Given& given, std::string why) {
  draft.notices.push_back({given.origin + " has no effect", std::move(why)});
}

// Return the other parts of the table in its order, after those of option_table.cpp.
std::span<const OptionEntry> of_programs();
std::span<const OptionEntry> of_failures();
std::span<const OptionEntry> of_output();
std::span<const OptionEntry> of_looking();

}  // namespace ddprun::command_line::rows
