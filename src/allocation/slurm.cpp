#include "ddprun/allocation/slurm.hpp"

#include <fmt/format.h>

#include "ddprun/allocation/by_hand.hpp"
#include "ddprun/allocation/hostlist.hpp"
#include "ddprun/allocation/slurm_in_step.hpp"
#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

Allocation describe_job(const SlurmScene& scene, std::optional<int> own) {
  Allocation allocation = start_allocation(scene);
  allocation.style = sourced(LaunchStyle::not_started, scene.context_origin);
  if (scene.options.run_id) allocation.instance = *scene.options.run_id;
  allocation.hosts.origin = scene.job.hosts_origin;
  for (const std::string& host : scene.job.hosts) allocation.hosts.value.push_back({host, 1});
  if (own) allocation.node_index = sourced(NodeIndex{*own}, "host name");
  allocation.task_count = sourced(static_cast<int>(scene.job.hosts.size()), scene.job.hosts_origin);
  if (scene.job.components > 1) allocation.components = sourced(scene.job.components, "SLURM_HET_SIZE");
  return allocation;
}

void check_nodes_available(const SlurmScene& scene) {
  const auto& nodes = scene.options.nodes;
  if (!nodes || nodes->value <= static_cast<int>(scene.job.hosts.size())) return;
  throw UsageError(
      fmt::format("{} {}, but job {} has {} ({})", nodes->origin, nodes->value, scene.job.id.value,
                  count_of(static_cast<std::int64_t>(scene.job.hosts.size()), "node"),
                  compress_hostlist(scene.job.hosts)),
      fmt::format("ask for {} nodes when submitting (sbatch -N{}), or add --node-rank and --master-addr "
                  "to join hosts by hand",
                  nodes->value, nodes->value));
}

Allocation parse_outside_step(const SlurmScene& scene) {
  const bool by_hand = is_complete_by_hand(scene.options);
  if (scene.job.hosts.empty()) {
    throw Error(fmt::format("job {} is set ({}), but SLURM_JOB_NODELIST is not", scene.job.id.value,
                            scene.job.id.origin),
                k_leak_hint);
  }
  const auto own = find_own_node(scene);
  check_on_job_host(scene);
  check_not_over(scene, start_allocation(scene));
  if (const auto foreign = find_foreign_place(scene, nullptr)) return follow_foreign_place(scene, *foreign);
  if (by_hand && !scene.options.standalone) return follow_flags(scene, scene.options);
  const std::string host = own ? scene.job.hosts[static_cast<std::size_t>(*own)] : scene.snapshot.host.name;
  if (scene.options.standalone)
    return make_alone_in_job(scene, sourced(host, scene.job.hosts_origin), "--standalone");
  check_nodes_available(scene);
  if (own && scene.job.hosts.size() == 1)
    return make_alone_in_job(scene, sourced(host, scene.job.hosts_origin), scene.job.hosts_origin);
  if (own && scene.options.nodes && scene.options.nodes->value == 1)
    return make_alone_in_job(scene, sourced(host, scene.job.hosts_origin), scene.options.nodes->origin);
  return describe_job(scene, own);
}

}  // namespace

bool has_slurm_job(const Snapshot& snapshot) {
  return Variables(snapshot.environment).text("SLURM_JOB_ID", "SLURM_JOBID").has_value();
}

Allocation parse_slurm(const Snapshot& snapshot, const PlaceOptions& options) {
  const SlurmScene scene = read_slurm_scene(snapshot, options);
  return scene.context == SlurmContext::step ? parse_in_step(scene) : parse_outside_step(scene);
}

}  // namespace ddprun
