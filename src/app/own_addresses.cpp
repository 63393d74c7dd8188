#include "ddprun/app/own_addresses.hpp"

#include <algorithm>

#include "ddprun/rendezvous/address_choice.hpp"

namespace ddprun {

std::vector<std::string> crossing_addresses(const std::vector<InterfaceAddress>& all) {
  std::vector<std::string> addresses;
  for (const InterfaceAddress& each : all) {
    if (!each.loopback && crosses_hosts(each.address)) addresses.push_back(each.address);
  }
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const std::string& address) { return address.find(':') == std::string::npos; });
  return addresses;
}

}  // namespace ddprun
