// PALS, the mpiexec of HPE Cray systems, and Slurm's mpi/cray_shasta, which sets the same variables but for
// PALS_LOCAL_SIZE (mpi_cray_shasta.c). PMI_FD is not among them: there is no PMI-1 server to ask.
#include "allocation/launchers/launcher_rows.hpp"

namespace ddprun::allocation::launcher_rows {

std::optional<LaunchPlace> read_pals(const Seen& seen) {
  const bool own = seen.variables.has("PALS_LOCAL_SIZE");
  auto place = read_numbers(
      seen, "PALS",
      {"PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", own ? "PALS_LOCAL_SIZE" : "PMI_LOCAL_SIZE"});
  if (!place) return place;
  place->one_a_node = "mpiexec -n {0} --ppn 1";
  place->node = read_number(seen, "PALS_NODEID", 0);
  if (const auto id = seen.variables.text("PALS_APID")) place->id = *id;
  place->slurm_step = read_slurm_step(seen, "PALS_APID");
  if (const auto secret = seen.variables.text("PMI_SHARED_SECRET")) {
    place->secrets.push_back({SecretKind::pmi_shared_secret, secret->value, secret->origin});
  }
  place->key_value_space = find_pmix(seen);
  return place;
}

}  // namespace ddprun::allocation::launcher_rows
