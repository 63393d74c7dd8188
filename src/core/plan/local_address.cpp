#include "plan/local_address.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/manual.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::plan {

namespace {

std::string describe(const Sourced<std::string>& given, const std::vector<std::string>& leads_to) {
  const bool numeric = leads_to.size() == 1 && leads_to.front() == given.value;
  return fmt::format("{} {}{}", given.origin, given.value, numeric ? "" : " (" + join(leads_to, ", ") + ")");
}

std::string own_addresses_hint(const facts::HostFacts& host) {
  std::vector<std::string> own;
  for (const facts::InterfaceAddress& each : host.addresses) {
    if (!each.loopback) own.push_back(each.address);
  }
  return own.empty() ? "leave it out" : fmt::format("leave it out, or give one of {}", join(own, ", "));
}

}  // namespace

std::optional<Sourced<std::string>> choose_local_address(const Sourced<std::string>& given,
                                                         const std::vector<std::string>& leads_to,
                                                         const NodeProposal& node,
                                                         const facts::HostFacts& host) {
  for (const std::string& address : leads_to) {
    const auto is_it = [&](const facts::InterfaceAddress& own) {
      return !own.loopback && own.address == address;
    };
    if (std::ranges::any_of(host.addresses, is_it)) return sourced(address, given.origin);
  }
  const RendezvousRole role = node.rendezvous.role;
  if (std::ranges::any_of(leads_to, allocation::is_loopback_name)) {
    if (role == RendezvousRole::solo) return given;
    if (same_host(given.value, host.name)) return std::nullopt;
    throw UsageError(fmt::format("{} is a different host on each of the {} nodes", describe(given, leads_to),
                                 node.rendezvous.agents),
                     own_addresses_hint(host));
  }
  if (role == RendezvousRole::coordinator) return sourced(leads_to.front(), given.origin);
  throw UsageError(fmt::format("{} is not an address of {}", describe(given, leads_to), node.host),
                   own_addresses_hint(host));
}

}  // namespace ddprun::plan
