// The user's own secret for sites without munge: $HOME/.ddprun/key, on a home directory that all nodes see.
#pragma once

#include <string>

#include "base/ids.hpp"

namespace ddprun::os {

// Returns `explicit_path` (--key-file) if not empty, else `home`/.ddprun/key. Throws UsageError when both are
// empty.
std::string default_key_path(const std::string& explicit_path, const std::string& home);

// Reads the key of a file that is a regular file, belongs to the effective user, has mode 0600 (or 0400) and
// holds 64 hexadecimal digits and a line end. Throws Error with a hint for anything else.
SecretKey read_key_file(const std::string& path);

// Reads the same, but makes the file (and its folder, mode 0700) with a random key when it is missing. Any
// number of nodes may do this at once: the file appears whole or not at all, and all get the key of the first
// that came.
SecretKey read_or_make_key_file(const std::string& path);

}  // namespace ddprun::os
