// flux run: FLUX_TASK_RANK is set for tasks only, FLUX_URI alone for an instance's initial program
// (flux-core, src/shell).
#include "allocation/launchers/launcher_rows.hpp"

namespace ddprun::allocation::launcher_rows {

std::optional<LaunchPlace> read_flux(const Seen& seen) {
  auto place = read_numbers(seen, "flux", {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", nullptr});
  if (!place) return place;
  place->one_a_node = "flux run -N{0} -n{0}";
  place->nodes = read_number(seen, "FLUX_JOB_NNODES", 1);
  place->nodes_exact = place->nodes.has_value();
  if (const auto id = seen.variables.text("FLUX_JOB_ID")) place->id = *id;
  place->key_value_space = find_pmi1(seen);
  return place;
}

}  // namespace ddprun::allocation::launcher_rows
