// Own addresses and ports of this host, and the process that holds a port.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::os {

// Own addresses and ports of this host, read without asking any other machine.

std::string capture_host_name();  // gethostname(), as it is

// Returns the IPv4 and IPv6 addresses of the interfaces that are up, in the kernel's order.
std::vector<facts::InterfaceAddress> capture_addresses();

// Ports the kernel gives to outgoing connections; Linux' default when unreadable.
std::pair<int, int> capture_ephemeral_ports();

// The process of this host that listens on a TCP port, for the sentence of one that could not.

struct PortHolder {
  int pid = 0;
  std::string name;          // the kernel's "comm"
  bool own_program = false;  // it runs the same file as this process
};

// Returns nullopt if no process shows it: it is another user's, or /proc is not our own.
std::optional<PortHolder> find_port_holder(int port);

}  // namespace ddprun::os
