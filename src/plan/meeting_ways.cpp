#include "ddprun/plan/meeting_ways.hpp"

#include <fmt/format.h>

#include "ddprun/base/error.hpp"
#include "ddprun/plan/ports.hpp"

namespace ddprun {

namespace {

// Every agent of the launch knows where the coordinator is.
bool all_told(const Allocation& allocation) {
  return allocation.first_address.has_value() || allocation.first_known;
}

Exchange choose_exchange(const Allocation& allocation, const Options& options) {
  if (options.meeting == Meeting::pmi) {
    if (allocation.exchange != Exchange::none) return allocation.exchange;
    throw UsageError("--rdzv pmi needs a launcher that offers PMI or PMIx, and its variables do not show one",
                     "leave --rdzv out, or meet through a file with --rdzv file");
  }
  const bool harmless = options.meeting == Meeting::automatic && allocation.exchange == Exchange::pmi1 &&
                        !all_told(allocation) && allocation.style.value == LaunchStyle::agent_per_node;
  return harmless ? Exchange::pmi1 : Exchange::none;
}

Sourced<std::string> choose_file(const RendezvousPlan& rendezvous, const Allocation& allocation,
                                 const Options& options, const Snapshot& snapshot) {
  const bool asked = options.meeting == Meeting::file;
  const bool named = !options.meeting_directory.empty();
  const bool useful = options.meeting == Meeting::automatic && !allocation.first_address &&
                      (!allocation.first_known || named);
  if (!asked && !useful) return {};
  const std::string home = find_variable(snapshot, "HOME").value_or("");
  if (!named && home.empty()) {
    if (!asked) return {};
    throw UsageError("there is no place for the meeting file: HOME is not set",
                     "name a folder with --rdzv-dir");
  }
  const std::string folder = named ? options.meeting_directory : home + "/.ddprun";
  return {fmt::format("{}/meet.{}.{:016x}", folder, snapshot.host.uid, launch_hash(rendezvous.key)),
          named ? "--rdzv-dir" : "home directory"};
}

// Members that know nothing would look nowhere until their deadline.
void check_findable(const RendezvousPlan& rendezvous, const Allocation& allocation,
                    const Snapshot& snapshot) {
  const bool told = rendezvous.exchange != Exchange::none || !rendezvous.meeting_file.value.empty() ||
                    !rendezvous.addresses.value.empty();
  if (told) return;
  throw Error(
      fmt::format("nothing on {} tells where the first of the {} ddprun is: {} names no hosts, and HOME, "
                  "where they could meet, is not set",
                  snapshot.host.name, rendezvous.agents, allocation.launcher.value),
      "name a folder that all hosts share with --rdzv-dir, or the first host with --master-addr");
}

}  // namespace

void choose_meeting_ways(RendezvousPlan& rendezvous, const Allocation& allocation, const Options& options,
                         const Snapshot& snapshot) {
  if (rendezvous.role == RendezvousRole::solo) return;
  rendezvous.secrets = allocation.secrets;
  rendezvous.exchange = choose_exchange(allocation, options);
  rendezvous.meeting_file = choose_file(rendezvous, allocation, options, snapshot);
  check_findable(rendezvous, allocation, snapshot);
}

}  // namespace ddprun
