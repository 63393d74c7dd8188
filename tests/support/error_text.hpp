// What a set-up error shows, as one text to compare with.
#pragma once

#include <string>

#include "base/error.hpp"

namespace ddprun {

// "sentence | hint" of the UsageError that `act` throws; "no error" when it throws none.
template <class Act>
std::string usage_error_of(const Act& act) {
  try {
    act();
  } catch (const UsageError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

// "sentence | hint | exit code" of any set-up error.
template <class Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint() + " | " + std::to_string(error.exit_code());
  }
  return "no error";
}

}  // namespace ddprun
