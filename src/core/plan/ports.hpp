// Ports where agents that share only a few variables look for each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::plan {

// Ports of the deterministic sequence lie in [first, last): above the fixed ports of common services and
// below Linux' default ephemeral range (32768-60999), where any outgoing connection may sit.
inline constexpr int k_first_sequence_port = 20480;
inline constexpr int k_last_sequence_port = 32256;

struct PortRange {
  int first = k_first_sequence_port;
  int last = k_last_sequence_port - 1;  // inclusive
};

// Returns a hash that is stable across versions and machines.
std::uint64_t launch_hash(const std::string& launch_key);

inline constexpr int k_sequence_ports = 8;
inline constexpr int k_spare_ports = 24;  // beyond those, for where others hold all of them

// Returns `count` different ports, or all of a smaller range, that follow from the launch key alone: the
// coordinator binds the first free one, members try all of them, and the handshake tells strangers apart.
std::vector<int> make_port_sequence(const std::string& launch_key, int count = k_sequence_ports,
                                    PortRange range = {});

}  // namespace ddprun::plan
