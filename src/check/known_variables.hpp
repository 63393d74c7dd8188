// Variables that are known to slow a training down or to make it fail.
#pragma once

#include <string>
#include <vector>

namespace ddprun::check {

// Those that HostRecord::variables holds where they are set.
std::vector<std::string> known_variables();

}  // namespace ddprun::check
