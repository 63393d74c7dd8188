// The rows of the launchers' table, what they share, and how each launcher's variables are read.
#pragma once

#include "allocation/launchers/launchers.hpp"
#include "allocation/variables.hpp"

namespace ddprun::allocation {

// The rows of the launchers' table, and what they share.

// Returns the host of "prterun-n1-1485@1" (PRRTE's plm_base_jobid.c: tool, host and pid of the one who
// started it); nullopt for any other name of a launch.
std::optional<std::string> find_prrte_host(std::string_view launch);

// Reports whether the text is made of the characters of IPv4 or IPv6 addresses alone.
bool is_address_text(std::string_view text);

namespace launcher_rows {

struct Seen {
  const facts::Snapshot& snapshot;
  Variables variables;
};

std::optional<LaunchPlace> read_flux(const Seen& seen);
std::optional<LaunchPlace> read_jsrun(const Seen& seen);
std::optional<LaunchPlace> read_pals(const Seen& seen);
std::optional<LaunchPlace> read_open_mpi(const Seen& seen);
std::optional<LaunchPlace> read_mvapich2(const Seen& seen);
std::optional<LaunchPlace> read_mpt(const Seen& seen);
std::optional<LaunchPlace> read_hydra(const Seen& seen);
std::optional<LaunchPlace> read_pmix(const Seen& seen);

// The names of one launcher's numbers; null where it has none.
struct Names {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

// Reads rank, size and the local ones; nullopt without a rank. Throws Error if they contradict each other.
std::optional<LaunchPlace> read_numbers(const Seen& seen, const char* launcher, const Names& names);

std::optional<Sourced<int>> read_number(const Seen& seen, const char* name, int least);

// Returns "29.0" for "29.0" (mpi/pmi2, mpi/cray_shasta) and for "slurm.pmix.29.0" (mpi/pmix); else empty.
std::string read_slurm_step(const Seen& seen, const char* variable);

// Finds the server: PMI_FD or PMI_PORT is a PMI-1 server; PMIX_SERVER_URI* a PMIx one.
KeyValueSpace find_pmi1(const Seen& seen);
KeyValueSpace find_pmix(const Seen& seen);

// Adds the host of mpiexec, which hydra's proxies name in their arguments.
void add_hydra_host(const Seen& seen, LaunchPlace& place);

}  // namespace launcher_rows

}  // namespace ddprun::allocation
