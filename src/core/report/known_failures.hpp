// Last words of a worker, and the well-known ones with their meaning and remedy.
// They are a table, each row of which has a recorded or constructed example under tests/data/failures.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/outcome.hpp"

namespace ddprun::report {

// Last words of a worker, reduced so that two failures can be compared.

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

inline constexpr std::size_t k_all_lines = std::numeric_limits<std::size_t>::max();

struct KnownFailure {
  std::string_view name;  // name of its example: tests/data/failures/NAME.txt
  // Any of these is a part of one of the last lines, or of the error file. All empty: it ran out of memory,
  // or was killed by `signal`.
  std::array<std::string_view, 5> texts;
  std::string_view meaning;
  std::string_view remedy;
  std::size_t lines = k_all_lines;  // number of nonempty lines searched, from the end
  int least_world_size = 1;         // the smallest world in which this is the usual cause
  int signal = 0;
  bool (*shown_by)(const std::vector<std::string>& lines) = nullptr;  // else by more than one line
};

// Return the table, and its rows that fit a failure; if several fit, the first counts.
std::span<const KnownFailure> known_failures();
std::vector<const KnownFailure*> find_known_failures(const Failure& failure, int world_size);

// Returns a hint for the report, from the worker's last lines and its error file; empty if none is known.
// `world_size` is that of the attempt: some endings have a usual cause in larger worlds only.
std::string find_failure_hint(const Failure& failure, int world_size);

// Reports whether the node itself may be the cause: a GPU's fault, SIGBUS, an error of the system below NCCL.
bool may_be_hardware(const Failure& failure);

}  // namespace ddprun::report
