// A PMIx server without variables of its own beside: prterun and prun of PRRTE, a MoM of OpenPBS built with
// PMIx, and srun --mpi=pmix, told by its namespace. There is a rank and no size; ddprun asks the server for
// it and the other numbers and puts them into the environment by the names of PMIx' attributes.
#include "allocation/launchers/launcher_rows.hpp"

namespace ddprun::allocation::launcher_rows {

std::optional<LaunchPlace> read_pmix(const Seen& seen) {
  const bool prrte = seen.variables.has("PRTE_LAUNCHED");
  auto place = read_numbers(seen, prrte ? "PRRTE" : "PMIx",
                            {"PMIX_RANK", "PMIX_JOB_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"});
  if (!place) return place;
  place->nodes = read_number(seen, "PMIX_NUM_NODES", 1);
  place->nodes_exact = place->nodes.has_value();
  place->one_a_node = "prterun -n {0} --map-by ppr:1:node";
  if (const auto id = seen.variables.text("PMIX_NAMESPACE")) {
    place->id = *id;
    if (auto host = find_prrte_host(id->value))
      place->front_end.push_back(sourced(std::move(*host), id->origin));
  }
  place->slurm_step = read_slurm_step(seen, "PMIX_NAMESPACE");
  place->key_value_space = find_pmix(seen);
  return place;
}

}  // namespace ddprun::allocation::launcher_rows
