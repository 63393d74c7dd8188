// Output that the user asked ddprun for, on standard output.
// Its other messages go to standard error (log.hpp).
#pragma once

#include <string>

namespace ddprun::console {

// Notes standard output, before descriptors are opened in the place of closed ones.
void note_standard_output();

// Prints text for people. What others wrote (a host's name, a variable, a worker's last line) must not
// control the terminal: all control bytes but line ends are shown as \xNN. Throws Error when not all could be
// written.
void print_text(const std::string& text);

// Prints as print_text does, but byte for byte: for programs and shells.
void print_data(const std::string& text);

}  // namespace ddprun::console
