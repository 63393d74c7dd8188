#include "plan/announced.hpp"

#include "facts/proc_text.hpp"

namespace ddprun::plan {

std::string announced_cpus(const NodeProposal& node, const facts::Snapshot& snapshot) {
  const bool binds = node.options.bind.mode != options::BindMode::none && snapshot.host.topology;
  return binds ? facts::render_cpu_list(snapshot.host.allowed_cpus) : std::string();
}

std::vector<LocalPeerWorker> announced_workers(const NodeProposal& node, const facts::Snapshot& snapshot) {
  std::vector<LocalPeerWorker> workers;
  // Nodes started by hand may share a host.
  if (node.allocation.style.value != allocation::LaunchStyle::agent_per_task &&
      node.allocation.scheduler.value != facts::Scheduler::manual)
    return workers;
  for (const OfferedWorker& offered : node.offered) {
    LocalPeerWorker worker{offered.device, {}};
    for (const int gpu : offered.gpus) {
      worker.gpus.push_back(
          facts::normal_pci_address(snapshot.host.gpus.at(static_cast<std::size_t>(gpu)).pci_address));
    }
    workers.push_back(std::move(worker));
  }
  return workers;
}

}  // namespace ddprun::plan
