// Last words of a worker, reduced so that two failures can be compared.
#pragma once

#include <string>
#include <vector>

#include "supervise/outcome.hpp"

namespace ddprun::supervise {

// The lines of its error file, then its last lines.
std::vector<std::string> words_of(const Failure& failure);
// The last line of them that is not blank.
std::string last_words(const Failure& failure);
// The exception of a Python traceback, which other lines may follow (torch warns of a process group that was
// not destroyed), else last_words().
std::string error_words(const Failure& failure);

// Ranks, pids, times and addresses differ between failures that are otherwise the same.
std::string without_numbers(std::string text);

}  // namespace ddprun::supervise
