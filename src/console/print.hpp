// What ddprun was asked for, on standard output. What it says by itself goes to standard error (log.hpp).
#pragma once

#include <string>

namespace ddprun::console {

// Before descriptors are opened in the place of closed ones.
void note_standard_output();

// For people. What others wrote (a host's name, a variable, a worker's last line) must not drive the
// terminal: all control bytes but line ends are shown as \xNN. Throws Error when not all could be written.
void print_text(const std::string& text);

// As print_text, but byte for byte: for programs and shells.
void print_data(const std::string& text);

}  // namespace ddprun::console
