// Where the store listens, and how many may come.
#pragma once

#include <cstddef>
#include <string>

#include "net/bound_socket.hpp"

namespace ddprun::net {

std::string error_text(int error);
// Throws Error naming the port.
BoundSocket listen_on(int port, int backlog);
BoundSocket listen_on_loopback(int backlog);
// By the limit of descriptors, of which some are kept for the rest of the program.
std::size_t connections_allowed();
// Whether accept failed for want of something that may be there again later.
bool out_of_room(int error);

}  // namespace ddprun::net
