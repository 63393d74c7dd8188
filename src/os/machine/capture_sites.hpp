// The descriptions of sites beside the built-in ones.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddprun::os {

// Path -> contents of the files in these folders whose names end in .json; folders may be absent. A file that
// cannot be read or is too long is there and empty, so that the plan can complain; in a folder with more than
// k_site_files_limit of them the first by name count.
std::map<std::string, std::string> capture_site_files(const std::vector<std::string>& folders);

}  // namespace ddprun::os
