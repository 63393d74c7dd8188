// MVAPICH2's mpirun_rsh, and hydra with programs of MVAPICH2. MVAPICH 3 has MPICH's names alone.
#include "allocation/launchers/launcher_rows.hpp"

namespace ddprun::allocation::launcher_rows {

std::optional<LaunchPlace> read_mvapich2(const Seen& seen) {
  auto place = read_numbers(seen, "MVAPICH2",
                            {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
                             "MV2_COMM_WORLD_LOCAL_SIZE"});
  if (!place) return place;
  place->one_a_node = "mpiexec -n {0} -ppn 1";
  // mpirun_rsh's PMI_PORT speaks a dialect of its own; hydra's PMI_FD is plain PMI-1.
  if (seen.variables.has("PMI_FD")) place->key_value_space = KeyValueSpace::pmi1;
  add_hydra_host(seen, *place);
  return place;
}

}  // namespace ddprun::allocation::launcher_rows
