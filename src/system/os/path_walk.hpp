// A walk along a path, one name after the other, and the program that execvp would start for a word.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>

#include "facts/program.hpp"
#include "os/descriptors.hpp"

namespace ddprun::os {

// A walk along a path, one name after the other.
// Each symbolic link and each folder on the way is seen as it is used.

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

// Program that execvp would start for a word, found without starting it.

// Returns the program that `word` of a command names. A word with a slash is that file; else a Python script
// or Python file of this name in the working directory, or the first executable file of this name on PATH, is
// meant: a name that ends in .py is looked for here first, any other on PATH first. Without PATH: /bin and
// /usr/bin, as in execvp(3).
facts::ProgramFacts capture_program(const std::string& word, const std::optional<std::string>& path_variable);

// The first line of a script, by which the kernel starts it.
struct FirstLine {
  std::string text;                  // after "#!"; a carriage return at its end stays. Empty: there is none
  std::string interpreter;           // its first word
  bool interpreter_missing = false;  // no such file on this host
};
FirstLine capture_first_line(const std::string& path);

}  // namespace ddprun::os
