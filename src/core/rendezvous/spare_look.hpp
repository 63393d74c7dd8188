// Messages about a look at a node that waits as a spare, before it is needed (--check=auto, --check-command).
#pragma once

#include <string>

#include "base/ids.hpp"

namespace ddprun::rendezvous {

// Order to look, while the workers of this attempt are being stopped.
struct Look {
  Attempt attempt;
  friend bool operator==(const Look&, const Look&) = default;
};

// The answer, always.
struct Looked {
  Attempt attempt;
  std::string unfit{}, remedy{};  // same as in Stopped
  friend bool operator==(const Looked&, const Looked&) = default;
};

}  // namespace ddprun::rendezvous
