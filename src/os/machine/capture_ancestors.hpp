// The processes above this one.
#pragma once

#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::os {

// Parent first, at most 64; ends where /proc stops telling (another user's processes under hidepid, the edge
// of a pid namespace).
std::vector<facts::Ancestor> capture_ancestors();

}  // namespace ddprun::os
