// Own addresses and ports of this host, read without asking any other machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::os {

std::string capture_host_name();  // gethostname(), as it is

// Returns the IPv4 and IPv6 addresses of the interfaces that are up, in the kernel's order.
std::vector<facts::InterfaceAddress> capture_addresses();

// Ports the kernel gives to outgoing connections; Linux' default when unreadable.
std::pair<int, int> capture_ephemeral_ports();

}  // namespace ddprun::os
