// A file that a command was asked to write.
#pragma once

#include <string>

namespace ddprun::commands {

// Throws Error with that hint.
void write_file(const std::string& path, const std::string& text, const char* hint);

}  // namespace ddprun::commands
