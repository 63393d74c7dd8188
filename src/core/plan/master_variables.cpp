#include "plan/master_variables.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "allocation/manual.hpp"
#include "allocation/places/places.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::plan {

namespace {

constexpr const char* k_address = "MASTER_ADDR";
constexpr const char* k_port = "MASTER_PORT";

std::string value_of(const facts::Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : std::string(trim(found->second));
}

std::string origin_of(const char* name) { return fmt::format("{} of the environment", name); }

// Reports whether torchrun or ddprun has set the variables; other launchers set the host's rank beside RANK,
// which scripts for a whole job do not.
bool is_inside_launch(const facts::Environment& environment) {
  const auto is_set = [&](const char* name) { return environment.contains(name); };
  return is_set("TORCHELASTIC_RUN_ID") || is_set("DDPRUN_LAUNCH_ID") ||
         (is_set("RANK") && is_set("LOCAL_RANK"));
}

// Reports whether it is a service's MASTER_PORT: Kubernetes gives every pod one if its namespace has a
// service named master.
bool is_of_service(const facts::Environment& environment, const std::string& port) {
  return port.starts_with("tcp://") && value_of(environment, k_address).empty();
}

std::optional<std::string> parse_address(const std::string& text) {
  try {
    return options::parse_host(text, k_address);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

std::optional<int> parse_port(const std::string& text) {
  const auto port = parse_integer(text);
  if (!port || *port < 0 || *port > 65535) return std::nullopt;
  return static_cast<int>(*port);
}

// Reports whether it is a loopback address in a launch of several hosts, or an unknown number of them.
bool is_ambiguous(const std::string& address, const allocation::Allocation& allocation) {
  return allocation::is_loopback_name(address) && allocation.hosts.value.size() != 1;
}

allocation::Notice not_followed(const char* name, const std::string& value, const std::string& why,
                                const std::string& hint) {
  return {fmt::format("{}={} of the environment is ignored: {}", name, printable(value, 80), why), hint};
}

std::optional<allocation::Notice> find_unfollowed_address(const NodeProposal& node,
                                                          const facts::Snapshot& snapshot,
                                                          const std::string& text) {
  const auto address = parse_address(text);
  if (!address) {
    return not_followed(k_address, text, "it is not an address",
                        "set it to one host name or address, or unset it");
  }
  if (node.options.local_address || node.allocation.first_address) return std::nullopt;
  if (node.rendezvous.role == RendezvousRole::solo) {
    if (find_own_master_address(node.options.place, snapshot.host)) return std::nullopt;
    return not_followed(k_address, text, "no other host takes part in this launch",
                        "unset it; several hosts take part inside a job, or with --nnodes and --node-rank");
  }
  if (!is_ambiguous(*address, node.allocation)) return std::nullopt;
  return not_followed(k_address, text, "it is a different host on each node",
                      "unset it: ddprun finds the first node");
}

}  // namespace

MasterVariables read_master_variables(const facts::Environment& environment) {
  MasterVariables found;
  if (is_inside_launch(environment) || allocation::is_port_of_hook(environment)) return found;
  const std::string address = value_of(environment, k_address);
  const std::string port = value_of(environment, k_port);
  if (const auto host = address.empty() ? std::nullopt : parse_address(address)) {
    found.address = sourced(*host, origin_of(k_address), Source::master_variable);
  }
  if (const auto number = parse_port(port))
    found.port = sourced(*number, origin_of(k_port), Source::master_variable);
  return found;
}

std::optional<Sourced<std::string>> find_own_master_address(const allocation::PlaceOptions& options,
                                                            const facts::HostFacts& host) {
  const auto& likely = options.likely_address;
  if (!likely) return std::nullopt;
  return allocation::is_own_address(likely->value, host) ? likely : std::nullopt;
}

void try_likely_address_first(Sourced<std::vector<std::string>>& addresses,
                              const allocation::Allocation& allocation,
                              const allocation::PlaceOptions& options) {
  const auto& likely = options.likely_address;
  if (!likely || allocation.first_address || is_ambiguous(likely->value, allocation)) return;
  std::vector<std::string>& known = addresses.value;
  if (!known.empty() && known.front() == likely->value) return;
  std::erase(known, likely->value);
  known.insert(known.begin(), likely->value);
  addresses.origin =
      known.size() == 1 ? likely->origin : fmt::format("{}, then {}", likely->origin, addresses.origin);
}

std::vector<allocation::Notice> find_unfollowed_master(const NodeProposal& node,
                                                       const facts::Snapshot& snapshot) {
  const facts::Environment& environment = snapshot.environment;
  std::vector<allocation::Notice> notices;
  if (node.options.place.standalone || is_inside_launch(environment) ||
      allocation::is_port_of_hook(environment))
    return notices;
  const std::string port = value_of(environment, k_port);
  if (!port.empty() && !parse_port(port) && !is_of_service(environment, port)) {
    notices.push_back(
        not_followed(k_port, port, "it is not a port", "set it to a number from 1 to 65535, or unset it"));
  }
  const std::string address = value_of(environment, k_address);
  if (address.empty()) return notices;
  if (auto notice = find_unfollowed_address(node, snapshot, address)) notices.push_back(std::move(*notice));
  return notices;
}

std::string other_port_hint(const std::optional<Sourced<int>>& port) {
  const bool exported = port && port->source == Source::master_variable;
  return exported ? "choose another MASTER_PORT, or unset it: ddprun finds a free one"
                  : "choose another --master-port, or none: ddprun finds a free one";
}

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
