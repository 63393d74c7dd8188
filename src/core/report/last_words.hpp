// Last words of a worker, reduced so that two failures can be compared.
#pragma once

#include <string>
#include <vector>

#include "report/outcome.hpp"

namespace ddprun::report {

// Without what Python's faulthandler wrote at a crash, to its end: these are no words of the worker's.
std::vector<std::string> without_crash(std::vector<std::string> lines);
// The lines of its error file, then its last lines without_crash().
std::vector<std::string> words_of(const Failure& failure);
// Returns the last line of them that is not blank.
std::string last_words(const Failure& failure);
// Returns the exception of a Python traceback, which other lines may follow (torch warns of a process group
// that was not destroyed), else last_words().
std::string error_words(const Failure& failure);

// Removes ranks, pids, times and addresses, which differ between failures that are otherwise the same.
std::string without_numbers(std::string text);

}  // namespace ddprun::report
