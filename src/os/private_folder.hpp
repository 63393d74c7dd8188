// Folders for this user alone, whatever the umask is.
#pragma once

#include <string>

namespace ddprun::os {

// Makes it; 0, else errno, EEXIST where something of that name is there.
int make_private_folder(const std::string& path);

}  // namespace ddprun::os
