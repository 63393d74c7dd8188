// Words of a command line that is given as one text.
#pragma once

#include <string>
#include <vector>

namespace ddprun::options {

// Splits words as a shell does, with '...', "..." and backslashes, but nothing expanded. Throws UsageError
// for an open quote and for no word, naming `origin`, with `hint`.
std::vector<std::string> split_shell_words(const std::string& text, const std::string& origin,
                                           const std::string& hint);

}  // namespace ddprun::options
