// Well-known last words of a worker, with their meaning and remedy.
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
