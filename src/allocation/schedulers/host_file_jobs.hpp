// Schedulers whose batch script finds the hosts of its job in a file and starts the others by a program of
// the scheduler's: Grid Engine, OAR, Fujitsu's PJM. No variable tells the place of a process that they start.
//
//   Grid Engine   PE_HOSTFILE, "host slots queue range" a line, on the first host of a parallel job only; a
//                 host has a line for each of its queues (submit(1), sge_pe(5))
//   OAR           OAR_NODEFILE, a line for each core, sorted as text; on any host of the job
//                 (oar-team/oar, docs/source/user/mechanisms.rst)
//   PJM           PJM_O_NODEINF, a host a line (the guides of the centres that have it)
#pragma once

#include "allocation/allocation.hpp"
#include "allocation/place_options.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

bool has_sge_job(const facts::Snapshot& snapshot);
bool has_oar_job(const facts::Snapshot& snapshot);
bool has_pjm_job(const facts::Snapshot& snapshot);

// As parse_lsf does: launched by an MPI launcher, by flags, alone, or not started yet. Throws Error where the
// file cannot be read or does not have this host.
Allocation parse_sge(const facts::Snapshot& snapshot, const PlaceOptions& options);
Allocation parse_oar(const facts::Snapshot& snapshot, const PlaceOptions& options);
Allocation parse_pjm(const facts::Snapshot& snapshot, const PlaceOptions& options);

}  // namespace ddprun::allocation
