// Where the coordinator listens when nothing tells the members: a short sequence of ports that both sides
// derive from the launch key.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

inline constexpr int k_first_rendezvous_port = 20480;
inline constexpr int k_last_rendezvous_port = 32255;  // below Linux' default ephemeral range, 32768-60999

// `count` different ports in [k_first_rendezvous_port, k_last_rendezvous_port], always the same for a key,
// without 29500, which torchrun uses. Two launches may share ports: the handshake tells them apart.
std::vector<int> rendezvous_ports(const std::string& launch_key, int count = 8);

}  // namespace ddprun
