// Table of every option of the command line, and options that do nothing without another one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "options/options.hpp"

namespace ddprun::command_line {

// Table of every option of the command line.
// The parser, the help, the completion scripts and the suggestions read this table, and a test holds the man
// page to it.

// The text of one option and where it stood: "--nnodes" or "PET_NNODES". A flag that is on has the text "1".
struct Given : Sourced<std::string> {
  const char* choices = "";  // OptionEntry::words
};

// Torchrun's option, or a value of it, whose effect ddprun does not have. All of a line are refused at once.
class Unsupported : public UsageError {
 public:
  Unsupported(std::string origin, std::string what, std::string hint)
      : UsageError(std::move(what), std::move(hint)), origin_(std::move(origin)) {}

  const std::string& origin() const noexcept { return origin_; }

 private:
  std::string origin_;
};

// Values that the options set, before they are checked against each other.
struct Draft : options::Options {
  std::optional<Sourced<options::Endpoint>> endpoint;  // --rdzv-endpoint
  std::optional<Sourced<std::map<std::string, std::string>>> conf;
  bool help = false;
  bool help_all = false;
  bool version = false;
  std::string completion;                      // shell of --print-completion
  std::map<std::string, std::string> origins;  // option name -> where it was given
  std::vector<Unsupported> unsupported;
  std::vector<allocation::Notice> warnings;  // probable mistakes, for every user to see
};

enum class OptionGroup {
  program,
  programs,
  workers,
  discovery,
  binding,
  failures,
  output,
  looking,
  about,
  without_effect,
  unsupported
};
enum class OptionValue { none, required, optional };
enum class OptionSource {
  torchrun,        // torchrun's, also read from PET_<NAME>
  torchrun_plain,  // torchrun's, without a variable
  own,             // not in torchrun, without a variable
};
enum class Completes { nothing, words, file };

struct OptionEntry {
  const char* name;  // without dashes: "nproc-per-node"
  char letter;       // 'm' of -m; '\0' when there is none
  OptionValue value;
  const char* metavar;  // "N"; empty for a flag
  OptionSource source;
  OptionGroup group;
  Completes completes;
  const char* words;                                // for Completes::words, with blanks between them
  const char* help;                                 // one short line without a final stop
  void (*apply)(Draft& draft, const Given& given);  // throws UsageError, Unsupported
};

const std::vector<OptionEntry>& option_table();

// Returns "PET_NPROC_PER_NODE"; empty if there is no such variable.
std::string variable_of(const OptionEntry& option);

// Options that do nothing without another one.
// Typed, they are refused or reported to have no effect. In a file or a variable they wait for the one that
// they belong to.

// On the command line, not in a file or a variable.
bool is_typed(const Draft& draft, const std::string& name);

// Throws UsageError for an option that asks for nothing without another one.
void check_requirements(const Draft& draft);

// Options that were typed, and nothing comes of.
void warn_of_no_effect(Draft& draft);

}  // namespace ddprun::command_line
