// Strict reading of the environment: unset is nothing, set but malformed is an error that names the variable.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/sourced.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

constexpr int k_most = std::numeric_limits<int>::max();  // limit of any count

class Variables {
 public:
  explicit Variables(const facts::Environment& environment) : environment_(environment) {}

  // Set and not empty; the origin is the variable's name.
  std::optional<Sourced<std::string>> text(const std::string& name) const;
  // Returns the first of two names that is set: a variable and its older spelling.
  std::optional<Sourced<std::string>> text(const std::string& name, const std::string& older) const;
  // Throws Error when set to anything but a whole number from `least` to `most`.
  std::optional<Sourced<std::int64_t>> number(const std::string& name, std::int64_t least,
                                              std::int64_t most) const;
  // Returns the same if it fits.
  std::optional<Sourced<int>> count(const std::string& name, int least, int most = k_most) const;
  bool has(const std::string& name) const { return text(name).has_value(); }

 private:
  const facts::Environment& environment_;
};

}  // namespace ddprun::allocation
