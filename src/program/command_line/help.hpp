// --version.
#pragma once

#include <string>
#include <vector>

#include "os/capture/capture_hardware.hpp"

namespace ddprun::command_line {

// Renders the version, the commit and the build, then a line for each optional library: its file or "not
// found".
std::string render_version(const std::vector<os::OptionalLibrary>& libraries, const std::string& hwloc);

}  // namespace ddprun::command_line
