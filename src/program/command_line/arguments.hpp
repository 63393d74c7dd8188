// Border between ddprun's options and the user's program, and the option that each word means.
#pragma once

#include <string>
#include <vector>

#include "command_line/option_table.hpp"

namespace ddprun::command_line {

struct Arguments {
  std::vector<std::string> options;  // "--name" for a flag, "--name", "value" for the others; full names only
  std::vector<std::string> command;  // the first word that is no option, and everything after it
  std::vector<std::string> launch;   // all words as they were given, but for --dry-run, --capture, --snapshot
};

// Normalises the arguments by the rules of Python's argparse, which torchrun's users rely on
// (torch/distributed/run.py):
// - the first word that is no option ends the options, and so does "--", which is dropped;
// - '_' may stand for '-' in a name, and a name may be cut short as long as it is not ambiguous. Of a name
//   of torchrun and one of ours, the cut word means torchrun's: scripts written for it keep their meaning;
// - "--name value", "--name=value", "-r 3", "-r3" and joined flags as in "-mv";
// - a word that looks like an option is not taken for a value unless '=' joins it.
// An option whose value may be left out takes one only after '='; without, it gets its first word.
// Throws UsageError for an unknown, ambiguous or misused option.
Arguments normalise_arguments(const std::vector<std::string>& arguments,
                              const std::vector<OptionEntry>& table);

// True where one of these words, of which any may be wrong, asks for something to be shown instead of
// started:
// --dry-run, --help, --status, ... A word behind "--" is the script's.
bool asks_to_look(const std::vector<std::string>& arguments);

}  // namespace ddprun::command_line
