#include "plan/device_sharing.hpp"

#include <set>

#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "placement/devices.hpp"

namespace ddprun::plan {

namespace {

// Returns the GPU that a local peer's only worker calls `device`, if this process calls it so too.
std::optional<int> find_same(const std::vector<facts::Gpu>& gpus, const LocalPeer& local_peer) {
  if (local_peer.workers.size() != 1 || local_peer.workers.front().gpus.size() != 1) return std::nullopt;
  const LocalPeerWorker& worker = local_peer.workers.front();
  const auto found = placement::find_gpu(gpus, worker.device);
  if (!found || worker.gpus.front().empty()) return std::nullopt;
  const facts::Gpu& gpu = gpus[static_cast<std::size_t>(*found)];
  return gpu.pci_address == worker.gpus.front() && gpu.mig.empty() ? found : std::nullopt;
}

}  // namespace

std::vector<std::string> find_shared_devices(const std::vector<facts::Gpu>& gpus,
                                             const std::vector<LocalPeer>& local_peers) {
  std::vector<std::string> entries;
  std::set<int> taken;
  for (const LocalPeer& local_peer : local_peers) {
    const auto gpu = find_same(gpus, local_peer);
    const bool next = local_peer.first_local_rank.value == static_cast<int>(entries.size());
    if (!gpu || !next || !taken.insert(*gpu).second) return {};
    // Level Zero takes its list for a set: number 0 is the first of the host, not of the list.
    if (gpus[static_cast<std::size_t>(*gpu)].vendor == "intel" && *taken.rbegin() != *gpu) return {};
    entries.push_back(local_peer.workers.front().device);
  }
  const bool valid =
      placement::parse_device_list(join(entries, ",")).size() == entries.size();  // all of one form
  return valid && entries.size() > 1 ? entries : std::vector<std::string>{};
}

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
