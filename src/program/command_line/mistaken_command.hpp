// Mistaken words in place of the script, or after it, and their meaning.
// They are another launcher, an option without hyphens or behind the script, or a time in two words. Each
// gets one answer with the line to write.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "options/options.hpp"

namespace ddprun::command_line {

// The words of a command line.
struct TypedWords {
  std::vector<std::string> before;   // words before the script, without "--"
  bool closed = false;               // "--" ended the options
  std::vector<std::string> options;  // Arguments::options
};

TypedWords split_typed(const std::vector<std::string>& arguments, const std::vector<std::string>& options,
                       std::size_t command_words);

// Throws UsageError where the command is no script whatever files there are: empty, "-", an option that
// begins with a dash of a word processor, or another launcher, which each worker would start anew.
void refuse_mistaken_command(const options::Options& options, const TypedWords& typed);

// The hint where no such program is found; empty where none is better than the usual one.
std::string hint_where_missing(const options::Options& options, const TypedWords& typed);

// Options of ddprun among the script's arguments that are given nowhere else. Names that scripts often have
// for options of their own are left out, and so is everything after "--".
std::optional<allocation::Notice> find_behind_script(const options::Options& options,
                                                     const TypedWords& typed);

// The word with each dash of a word processor as a hyphen.
std::string with_hyphens(std::string_view word);

}  // namespace ddprun::command_line
