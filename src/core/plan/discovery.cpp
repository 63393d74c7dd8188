#include "plan/discovery.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "plan/ports.hpp"

namespace ddprun::plan {

namespace {

// Reports whether every agent of the launch knows where the coordinator is.
bool all_told(const allocation::Allocation& allocation) {
  return allocation.first_address.has_value() || allocation.first_known;
}

allocation::KeyValueSpace choose_key_value_space(const allocation::Allocation& allocation,
                                                 const options::Options& options) {
  if (options.discovery == options::Discovery::pmi) {
    if (allocation.key_value_space != allocation::KeyValueSpace::none) return allocation.key_value_space;
    throw UsageError("--rdzv pmi requires a launcher with PMI or PMIx, but its variables show neither",
                     "leave --rdzv out, or use --rdzv file");
  }
  const bool harmless = options.discovery == options::Discovery::automatic &&
                        allocation.key_value_space == allocation::KeyValueSpace::pmi1 &&
                        !all_told(allocation) &&
                        allocation.style.value == allocation::LaunchStyle::agent_per_node;
  return harmless ? allocation::KeyValueSpace::pmi1 : allocation::KeyValueSpace::none;
}

Sourced<std::string> choose_file(const RendezvousPlan& rendezvous, const allocation::Allocation& allocation,
                                 const options::Options& options, const facts::Snapshot& snapshot) {
  const bool asked = options.discovery == options::Discovery::file;
  const bool named = !options.rendezvous_directory.empty();
  const bool useful = options.discovery == options::Discovery::automatic && !allocation.first_address &&
                      (!allocation.first_known || named);
  if (!asked && !useful) return {};
  const std::string home = facts::find_variable(snapshot, "HOME").value_or("");
  if (!named && home.empty()) {
    if (!asked) return {};
    throw UsageError("cannot place the rendezvous file: HOME is not set", "name a folder with --rdzv-dir");
  }
  const std::string folder = named ? options.rendezvous_directory : home + "/.ddprun";
  return {fmt::format("{}/meet.{}.{:016x}", folder, snapshot.host.uid, launch_hash(rendezvous.key)),
          named ? "--rdzv-dir" : "home directory"};
}

// Throws if members could not find the coordinator: without a place to look they would wait until their
// deadline.
void check_findable(const RendezvousPlan& rendezvous, const allocation::Allocation& allocation,
                    const facts::Snapshot& snapshot) {
  const bool told = rendezvous.key_value_space != allocation::KeyValueSpace::none ||
                    !rendezvous.rendezvous_file.value.empty() || !rendezvous.addresses.value.empty();
  if (told) return;
  throw Error(fmt::format("cannot locate the coordinator from {}, one of {} ddprun processes: {} names no "
                          "hosts, and HOME, for a rendezvous file, is not set",
                          snapshot.host.name, rendezvous.agents, allocation.launcher.value),
              "name a folder that all hosts share with --rdzv-dir, or the first host with --master-addr");
}

}  // namespace

void choose_discovery(RendezvousPlan& rendezvous, const allocation::Allocation& allocation,
                      const options::Options& options, const facts::Snapshot& snapshot) {
  if (rendezvous.role == RendezvousRole::solo) return;
  rendezvous.secrets = allocation.secrets;
  rendezvous.key_value_space = choose_key_value_space(allocation, options);
  rendezvous.rendezvous_file = choose_file(rendezvous, allocation, options, snapshot);
  check_findable(rendezvous, allocation, snapshot);
}

}  // namespace ddprun::plan
