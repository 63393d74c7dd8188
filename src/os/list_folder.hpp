// Names in a folder.
#pragma once

#include <string>
#include <vector>

namespace ddprun::os {

// Without those that begin with a dot, sorted; empty when there is no such folder.
std::vector<std::string> list_folder(const std::string& path);

}  // namespace ddprun::os
