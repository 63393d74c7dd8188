#include "plan/site_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "plan/node_proposal.hpp"
#include "plan/rendezvous_plan.hpp"
#include "site/site.hpp"

namespace ddprun::plan {

namespace {

bool is_numeric(const std::string& host) {
  return host.find(':') != std::string::npos || host.find_first_not_of("0123456789.") == std::string::npos;
}

// Returns n1i.cluster for "n1.cluster" with the suffix "i"; n1.d with the domain d.
std::vector<std::string> names_at_site(const std::string& host, const site::SiteProfile& profile) {
  const std::string first{host.substr(0, host.find('.'))};
  const std::string rest = host.substr(first.size());
  std::vector<std::string> names;
  for (const std::string& suffix : profile.suffixes) {
    if (!first.ends_with(suffix)) names.push_back(first + suffix + rest);
  }
  for (const std::string& domain : profile.domains) names.push_back(first + "." + domain);
  return names;
}

// Adds names, best first: one that does not resolve fails by itself, and the plain one is tried beside it.
void add_names(RendezvousPlan& rendezvous, const site::SitePlan& site) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    const bool known = std::ranges::find(names, name) != names.end();
    if (!known && names.size() < k_most_addresses) names.push_back(name);
  };
  for (const std::string& host : rendezvous.addresses.value) {
    if (!is_numeric(host)) {
      for (const std::string& name : names_at_site(host, site.profile)) add(name);
    }
    add(host);
  }
  if (names == rendezvous.addresses.value) return;
  rendezvous.addresses = {std::move(names),
                          fmt::format("{}, then {}", site.as_origin(), rendezvous.addresses.origin)};
}

void note_missing_interfaces(NodeProposal& node) {
  const site::SiteProfile& profile = node.site.profile;
  std::vector<std::string> missing;
  if (!profile.gloo_interfaces.empty() && !node.site.interfaces.contains("GLOO_SOCKET_IFNAME")) {
    missing = profile.gloo_interfaces;
  }
  if (!profile.nccl_interfaces.empty() && !node.site.interfaces.contains("NCCL_SOCKET_IFNAME") &&
      std::ranges::find(missing, profile.nccl_interfaces) == missing.end()) {
    missing.push_back(profile.nccl_interfaces);
  }
  if (missing.empty()) return;
  node.notices.push_back(
      {fmt::format("{} has none of the interfaces that the site {} ({}) names: {}", node.host, profile.name,
                   profile.source, join(missing, ", ")),
       "the interface of the rendezvous is used instead; --site none ignores the profile"});
}

}  // namespace

void apply_site(NodeProposal& node, const facts::Snapshot& snapshot) {
  node.site = site::choose_site(snapshot, node.options.site);
  node.notices.insert(node.notices.end(), node.site.notices.begin(), node.site.notices.end());
  RendezvousPlan& rendezvous = node.rendezvous;
  if (!node.site.known() || rendezvous.role == RendezvousRole::solo) return;
  note_missing_interfaces(node);
  const allocation::Allocation& allocation = node.allocation;
  if (!allocation.first_address) add_names(rendezvous, node.site);
  const auto& range = node.site.profile.ports;
  const bool reserved = allocation.reserved_ports && !allocation.reserved_ports->value.empty();
  if (!range || allocation.first_port || reserved) return;
  follow_sequence(rendezvous, {range->first, range->second},
                  fmt::format("{}, follows from {}", node.site.as_origin(), rendezvous.key));
}

}  // namespace ddprun::plan
