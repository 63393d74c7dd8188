// Reads which Python and torch an interpreter has, from files alone: nothing is run or imported.
#pragma once

#include <string>

#include "facts/program.hpp"
#include "facts/python_facts.hpp"

namespace ddprun::os {

// Captures the Python whose program has the path `interpreter`. A few dozen files are looked for and two are
// read; packages in places other than those of CPython's site.py and Debian are not found.
facts::PythonFacts capture_python(const std::string& interpreter, const facts::Environment& environment);

// Returns the version of the NCCL package beside its torch (nvidia-nccl-cu12); empty if there is none. Lists
// the packages' folder.
std::string find_nccl_version(const std::string& interpreter, const facts::Environment& environment);

}  // namespace ddprun::os
