#include "peers/own_addresses.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "net/name_lookup.hpp"
#include "plan/local_address.hpp"
#include "rendezvous/address_choice.hpp"
#include "rendezvous/membership/member_join.hpp"

namespace ddprun::peers {

std::vector<std::string> crossing_addresses(const std::vector<facts::InterfaceAddress>& all) {
  std::vector<std::string> addresses;
  for (const facts::InterfaceAddress& each : all) {
    if (!each.loopback && rendezvous::crosses_hosts(each.address)) addresses.push_back(each.address);
  }
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const std::string& address) { return address.find(':') == std::string::npos; });
  return addresses;
}

void settle_local_address(plan::NodeProposal& node, const facts::Snapshot& snapshot) {
  if (!node.options.local_address) return;
  const Sourced<std::string> given = *node.options.local_address;
  std::vector<std::string> leads_to{given.value};
  if (!rendezvous::is_numeric_address(given.value)) leads_to = net::look_up_name(given.value);
  if (leads_to.empty()) {
    throw UsageError(fmt::format("{} {} resolves to no address on {}", given.origin, given.value, node.host),
                     "leave it out, or give an address of this host");
  }
  node.options.local_address = plan::choose_local_address(given, leads_to, node, snapshot.host);
}

}  // namespace ddprun::peers
