// jsrun of LSF on CORAL systems (IBM Job Step Manager).
#include "allocation/launchers/launcher_rows.hpp"

namespace ddprun::allocation::launcher_rows {

std::optional<LaunchPlace> read_jsrun(const Seen& seen) {
  auto place = read_numbers(
      seen, "jsrun",
      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"});
  if (!place) return place;
  place->one_a_node = "jsrun -n {0} -r 1 -a 1 -c ALL_CPUS -g ALL_GPUS";
  if (const auto id = seen.variables.text("PMIX_NAMESPACE")) place->id = *id;
  place->key_value_space = find_pmix(seen);
  return place;
}

}  // namespace ddprun::allocation::launcher_rows
