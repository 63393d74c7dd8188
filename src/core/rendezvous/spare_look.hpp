// Messages about looks at nodes between two attempts, and what such a look has found.
// It is for --check=auto and --check-command.
#pragma once

#include <string>

#include "base/ids.hpp"

namespace ddprun::rendezvous {

// Finding that keeps a node from another attempt.
struct Unfit {
  std::string what{};  // "GPU 3: GPU is lost"; empty: it is fit
  std::string remedy{};
  bool may_stay = false;  // workers can run here where no other node is left
  friend bool operator==(const Unfit&, const Unfit&) = default;
};

// Order to look, while the workers of this attempt are being stopped.
struct Look {
  Attempt attempt;
  friend bool operator==(const Look&, const Look&) = default;
};

// The answer, always.
struct Looked {
  Attempt attempt;
  Unfit unfit{};
  friend bool operator==(const Looked&, const Looked&) = default;
};

}  // namespace ddprun::rendezvous
