// What the file the user named is, as far as the way to start it goes.
#pragma once

namespace ddprun {

enum class ProgramKind {
  python_file,  // ends in .py, or its first line names python
  executable,   // may be executed and is no Python file
  other,        // not there, a folder, or neither of the above: left to python to explain
};

}  // namespace ddprun
