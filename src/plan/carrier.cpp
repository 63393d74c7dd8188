#include "ddprun/plan/carrier.hpp"

#include <fmt/format.h>

#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

// The exact line that starts one agent on every node of the allocation. -n is there because srun prefers the
// SLURM_NTASKS of the job to --ntasks-per-node; of a heterogeneous job each component brings its own nodes.
std::string srun_line(const Allocation& allocation, const Options& options, const Snapshot& snapshot) {
  std::vector<std::string> words{"srun"};
  if (allocation.components.value > 1) {
    words.push_back(fmt::format("--het-group=0-{}", allocation.components.value - 1));
  } else {
    const std::size_t hosts = allocation.hosts.value.size();
    const int nodes = options.place.nodes ? options.place.nodes->value : static_cast<int>(hosts);
    words.push_back(fmt::format("-N{}", nodes));
    words.push_back(fmt::format("-n{}", nodes));
  }
  words.emplace_back("--ntasks-per-node=1");
  if (allocation.cpus_on_node.value > 1) {
    words.push_back(fmt::format("-c{}", allocation.cpus_on_node.value));
  }
  words.emplace_back("ddprun");
  words.insert(words.end(), snapshot.arguments.begin(), snapshot.arguments.end());
  return shell_quote(words);
}

}  // namespace

void refuse_unstarted(const Allocation& allocation, const Options& options, const Snapshot& snapshot) {
  if (allocation.style.value != LaunchStyle::not_started) return;
  const std::size_t nodes = allocation.hosts.value.size();
  const bool on_node = !allocation.node_index.origin.empty();
  throw Error(fmt::format("job {} has {}, but ddprun was started on {}{}, outside any step of it",
                          allocation.job_id.value, count_of(static_cast<std::int64_t>(nodes), "node"),
                          snapshot.host.name,
                          on_node      ? " alone"
                          : nodes == 1 ? ", which is not it"
                                       : ", which is none of them"),
              fmt::format("start it on {} with: {}", nodes == 1 ? "that node" : "every node",
                          srun_line(allocation, options, snapshot)));
}

}  // namespace ddprun
