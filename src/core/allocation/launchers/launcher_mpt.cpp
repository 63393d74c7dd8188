// HPE MPT, formerly SGI's: mpiexec_mpt. MPT_LRANK is the rank on the host (LAMMPS, doc/src/Run_options.rst),
// PMI_RANK that of all (NCAR's launch_cf.sh, which DART keeps). A size is read where there is one; no source
// says that MPT gives it.
#include "allocation/launchers/launcher_rows.hpp"

namespace ddprun::allocation::launcher_rows {

std::optional<LaunchPlace> read_mpt(const Seen& seen) {
  if (!seen.variables.has("MPT_LRANK")) return std::nullopt;
  auto place = read_numbers(seen, "HPE MPT", {"PMI_RANK", "PMI_SIZE", "MPT_LRANK", nullptr});
  if (place) place->one_a_node = "mpiexec_mpt -n {0} -ppn 1";
  return place;
}

}  // namespace ddprun::allocation::launcher_rows
