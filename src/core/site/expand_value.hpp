// Values of a site's profile, in which variables of the user's environment stand.
#pragma once

#include <string>

#include "facts/program.hpp"

namespace ddprun::site {

struct ExpandedValue {
  std::string text;
  std::string missing;  // the first variable in it that is not set; empty: all are
};

// "$NAME" and "${NAME}" are replaced, "${NAME:-TEXT}" is TEXT where NAME is unset or empty, "~" at the start
// of the value or after ':' is HOME where the name ends there, and "$$" is a dollar sign. Any other '$' or
// '~' stays.
ExpandedValue expand_value(const std::string& text, const facts::Environment& environment);

}  // namespace ddprun::site
