#include "ddprun/allocation/detect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ddprun/allocation/by_hand.hpp"
#include "ddprun/allocation/mpi_launcher.hpp"
#include "ddprun/allocation/slurm.hpp"
#include "ddprun/allocation/started.hpp"
#include "ddprun/base/error.hpp"

namespace ddprun {

namespace {

struct Detector {
  const char* name;
  bool (*applies)(const Snapshot&, const PlaceOptions&);
  Allocation (*parse)(const Snapshot&, const PlaceOptions&);
};

bool in_slurm_job(const Snapshot& snapshot, const PlaceOptions&) { return has_slurm_job(snapshot); }

bool has_flags(const Snapshot&, const PlaceOptions& options) {
  return is_by_hand(options) && !options.standalone;
}

std::optional<MpiPlace> find_launched_rank(const Snapshot& snapshot) {
  for (const MpiPlace& place : find_mpi_places(Variables(snapshot.environment))) {
    if (place.size && place.size->value > 1) return place;
  }
  return std::nullopt;
}

bool under_mpi_launcher(const Snapshot& snapshot, const PlaceOptions& options) {
  return !options.standalone && find_launched_rank(snapshot).has_value();
}

// Followed silently as "alone", every rank would become a job of its own.
Allocation refuse_mpi_launcher(const Snapshot& snapshot, const PlaceOptions&) {
  throw Error(
      fmt::format("{} is set: an MPI launcher started this ddprun, and it cannot take its place from one",
                  describe(*find_launched_rank(snapshot))),
      "say where it is with --nnodes, --node-rank and --master-addr, or use this host alone with "
      "--standalone");
}

bool always(const Snapshot&, const PlaceOptions&) { return true; }

Allocation parse_alone(const Snapshot& snapshot, const PlaceOptions& options) {
  return make_alone(snapshot, options, options.standalone ? "--standalone" : "no scheduler and no --nnodes");
}

// Asked from the top; the first that applies decides. A scheduler that can run inside another comes before
// it. An MPI launcher's ranks inside a Slurm job are the business of the Slurm detector, which knows whether
// they agree with srun's.
constexpr std::array<Detector, 6> k_detectors{{
    {"started by ddprun", is_started, parse_started},
    {"hosts", has_listed_hosts, parse_listed_hosts},
    {"slurm", in_slurm_job, parse_slurm},
    {"by hand", has_flags, parse_by_hand},
    {"MPI launcher", under_mpi_launcher, refuse_mpi_launcher},
    {"alone", always, parse_alone},
}};

Allocation ask_detectors(const Snapshot& snapshot, const PlaceOptions& options) {
  const auto chosen = std::find_if(k_detectors.begin(), k_detectors.end(), [&](const Detector& detector) {
    return detector.applies(snapshot, options);
  });
  Allocation allocation = chosen->parse(snapshot, options);
  add_starter_secret(snapshot, allocation);
  return allocation;
}

}  // namespace

Allocation detect_allocation(const Snapshot& snapshot, const PlaceOptions& options) {
  if (!options.standalone) return ask_detectors(snapshot, options);
  try {
    return ask_detectors(snapshot, options);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    Allocation allocation = parse_alone(snapshot, options);
    allocation.notices.push_back({fmt::format("--standalone ignores that {}", error.what()), {}});
    return allocation;
  }
}

}  // namespace ddprun
