// A walk along a path, one name after the other.
// Each symbolic link and each folder on the way is seen as it is used.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>

#include "os/fd.hpp"

namespace ddprun::os {

// Returns why an entry may have been put there by another user for us to find: "it belongs to user 1001, and
// all users can write to its folder"; empty: it was not. The kernel refuses the same links and files if
// fs.protected_symlinks, fs.protected_fifos and fs.protected_regular are on (proc_sys_fs(5)).
std::string why_foreign(const struct stat& folder, const struct stat& entry);

// The folder of the last name behind all symbolic links, opened (O_PATH), and that name there. `name` is "."
// where the path is a folder by its spelling.
struct WalkedPath {
  Fd folder;
  std::string name;
  bool in_proc = false;  // a name in /proc is not followed: what it leads to may be a file that is open
  std::string problem;   // reason why there is none: errno in words or another user's link; empty: there is
};

// `look` is called with each folder on the way, the last one included; what it returns ends the walk as its
// problem.
WalkedPath walk_path(const std::string& path,
                     const std::function<std::string(const Fd& folder)>& look = nullptr);

// Returns how another user than root can rename or replace the entries of the folder `path`, by its
// permissions and those of all folders that lead to it: "/scratch can be changed by other users (mode 0777
// without the sticky bit)"; empty: none can.
std::string why_others_can_replace(const std::string& path);

}  // namespace ddprun::os
