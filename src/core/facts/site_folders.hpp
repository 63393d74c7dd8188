// Folders of site descriptions beside the built-in ones.
#pragma once

#include <string>
#include <vector>

#include "facts/program.hpp"

namespace ddprun::facts {

// A longer description is refused, and so are more of them in one folder.
inline constexpr std::size_t k_site_file_limit = 64 << 10;
inline constexpr std::size_t k_site_files_limit = 64;

// Returns the user's folder ($XDG_CONFIG_HOME/ddprun/sites.d, default ~/.config/ddprun/sites.d; none without
// a home), then /etc/ddprun/sites.d. Files that end in .json are read.
std::vector<std::string> site_folders(const Environment& environment);

}  // namespace ddprun::facts
