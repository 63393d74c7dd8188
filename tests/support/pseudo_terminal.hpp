// A program on a terminal of its own, with the test at the keys.
#pragma once

#include <string>
#include <vector>

#include "os/descriptors.hpp"
#include "os/process/child.hpp"

namespace ddprun::testing {

class PseudoTerminal {
 public:
  // Runs mini_launcher's shell on a new terminal, and in it mini_launcher with `arguments`.
  explicit PseudoTerminal(std::vector<std::string> arguments, const std::string& shell = "shell");

  void type(const std::string& keys);
  // Reads on until this was shown; fails the test after ten seconds without.
  void expect(const std::string& text);
  ExitStatus wait_for_end();

 private:
  os::Fd master_;
  std::string shown_;  // not yet expected
  os::Child shell_;
};

}  // namespace ddprun::testing
