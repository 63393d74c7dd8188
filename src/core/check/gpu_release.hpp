// Memory of GPUs that other processes still hold when the next attempt is about to start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "check/finding.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::check {

// Most that other processes may hold of a GPU that counts as free.
inline constexpr std::uint64_t k_free_gpu_memory = std::uint64_t{512} << 20;

struct GpuHolder {
  int pid = 0;
  std::int64_t memory = -1;  // bytes; -1: the driver does not tell
  std::string name;          // the kernel's "comm"; empty: /proc does not show it
  std::string user;          // name, or number
};

struct GpuMemory {
  std::string address;     // PCI
  std::uint64_t used = 0;  // bytes, of all processes
  std::vector<GpuHolder> holders;
};

// Returns the PCI addresses of these workers' GPUs: NVIDIA's alone, without those that are divided (MIG), of
// which another part may be another job's.
template <class Worker>
std::vector<std::string> whole_gpus(const facts::HostFacts& host, const std::vector<Worker>& workers) {
  std::vector<std::string> addresses;
  for (const Worker& worker : workers) {
    for (const int index : worker.gpus) {
      const facts::Gpu& gpu = host.gpus.at(static_cast<std::size_t>(index));
      if (gpu.vendor == "nvidia" && gpu.mig.empty()) addresses.push_back(gpu.pci_address);
    }
  }
  return addresses;
}

// Returns those of `gpus` (PCI addresses) that are not free, with the processes that hold them. Processes of
// `own` may hold any; where there are some, those that /proc does not show may be the same under another
// number and do not count. What was in use `before` the first attempt may stay. A GPU of which the driver
// shows no process at all counts by what is used.
std::vector<GpuMemory> find_held(const std::vector<GpuMemory>& now, const std::vector<std::string>& gpus,
                                 const std::vector<int>& own, const HostRecord& before);

// Describes GPUs that are held now (0), or still after this time; `held` is not empty.
Finding describe_held(const std::vector<GpuMemory>& held, const std::string& host, Milliseconds waited);

}  // namespace ddprun::check
