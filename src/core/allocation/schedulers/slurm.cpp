#include "allocation/schedulers/schedulers.hpp"

#include <fmt/format.h>

#include "allocation/hostlist.hpp"
#include "allocation/manual.hpp"
#include "allocation/schedulers/slurm_facts.hpp"
#include "allocation/schedulers/slurm_step.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

Allocation describe_job(const SlurmFacts& facts, std::optional<int> own) {
  Allocation allocation = start_allocation(facts);
  allocation.style = sourced(LaunchStyle::not_started, facts.context_origin);
  if (facts.options.run_id) allocation.instance = *facts.options.run_id;
  allocation.hosts.origin = facts.job.hosts_origin;
  for (const std::string& host : facts.job.hosts) allocation.hosts.value.push_back({host, 1});
  if (own) allocation.node_index = {NodeIndex{*own}, "host name"};
  allocation.task_count = sourced(static_cast<int>(facts.job.hosts.size()), facts.job.hosts_origin);
  if (facts.job.components > 1) allocation.components = sourced(facts.job.components, "SLURM_HET_SIZE");
  return allocation;
}

void check_nodes_available(const SlurmFacts& facts) {
  const auto& nodes = facts.options.nodes;
  if (!nodes || nodes->value <= static_cast<int>(facts.job.hosts.size())) return;
  throw UsageError(
      fmt::format("{} {}, but job {} has {} ({})", nodes->origin, nodes->value, facts.job.id.value,
                  count_of(static_cast<std::int64_t>(facts.job.hosts.size()), "node"),
                  compress_hostlist(facts.job.hosts)),
      fmt::format("request {} nodes for the job (sbatch -N{}), or add --node-rank and --master-addr to join "
                  "hosts manually",
                  nodes->value, nodes->value));
}

Allocation parse_outside_step(const SlurmFacts& facts) {
  const bool manual = is_complete_manual(facts.options);
  if (facts.job.hosts.empty()) {
    throw Error(fmt::format("job {} is set ({}), but SLURM_JOB_NODELIST is not", facts.job.id.value,
                            facts.job.id.origin),
                k_leak_hint);
  }
  const auto own = find_own_node(facts);
  check_on_job_host(facts);
  check_not_over(facts, start_allocation(facts));
  if (const auto foreign = find_foreign_place(facts, nullptr)) return follow_foreign_place(facts, *foreign);
  if (manual && !facts.options.standalone) return follow_flags(facts, facts.options);
  const std::string host = own ? facts.job.hosts[static_cast<std::size_t>(*own)] : facts.snapshot.host.name;
  if (facts.options.standalone)
    return make_alone_in_job(facts, sourced(host, facts.job.hosts_origin), "--standalone");
  check_nodes_available(facts);
  if (own && facts.job.hosts.size() == 1)
    return make_alone_in_job(facts, sourced(host, facts.job.hosts_origin), facts.job.hosts_origin);
  if (own && facts.options.nodes && facts.options.nodes->value == 1)
    return make_alone_in_job(facts, sourced(host, facts.job.hosts_origin), facts.options.nodes->origin);
  return describe_job(facts, own);
}

}  // namespace

bool has_slurm_job(const facts::Snapshot& snapshot) {
  return Variables(snapshot.environment).text("SLURM_JOB_ID", "SLURM_JOBID").has_value();
}

Allocation parse_slurm(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const SlurmFacts facts = read_slurm_facts(snapshot, options);
  return facts.context == SlurmContext::step ? parse_in_step(facts) : parse_outside_step(facts);
}

}  // namespace ddprun::allocation
