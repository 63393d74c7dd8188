// The process of this host that listens on a TCP port, for the sentence of one that could not.
#pragma once

#include <optional>
#include <string>

namespace ddprun::os {

struct PortHolder {
  int pid = 0;
  std::string name;          // the kernel's "comm"
  bool own_program = false;  // it runs the same file as this process
};

// Returns nullopt if no process shows it: it is another user's, or /proc is not our own.
std::optional<PortHolder> find_port_holder(int port);

}  // namespace ddprun::os
