// By which numeric addresses other hosts may reach this one.
#pragma once

#include <string>
#include <vector>

#include "ddprun/facts/snapshot.hpp"

namespace ddprun {

// No loopback and no link-local ones. IPv4 before IPv6: torch tries and complains about IPv6 first where only
// IPv4 works.
std::vector<std::string> crossing_addresses(const std::vector<InterfaceAddress>& all);

}  // namespace ddprun
