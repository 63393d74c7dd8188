#include "os/capture/capture_hardware.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <hwloc.h>
#include <link.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "os/libraries/key_value_space.hpp"
#include "os/libraries/munge.hpp"
#include "os/libraries/nvml.hpp"
#include "os/libraries/slurm_api.hpp"
#include "os/libraries/topology.hpp"
#include "os/libraries/zstd.hpp"
#include "os/machine/capture_gpus.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/process/child_call.hpp"

namespace ddprun::os {

namespace {

// Returns, in the child, the topology as JSON, or the reason why there is none behind '-'.
std::string tell_topology() {
  try {
    return facts::render_topology(discover_topology());
  } catch (const Error& error) {
    return std::string("-") + error.what();
  }
}

// Throws Error with the reason where the answer is none.
facts::Topology read_answer(const ChildAnswer& answer, const std::vector<int>& allowed) {
  if (!answer.bytes) throw Error(answer.problem);
  if (answer.bytes->starts_with('-')) throw Error(printable(answer.bytes->substr(1)));
  facts::Topology topology = facts::parse_topology(*answer.bytes, "hwloc's answer");
  const std::vector<int> cpus = facts::all_cpus(topology);
  for (const int cpu : allowed) {
    if (!std::binary_search(cpus.begin(), cpus.end(), cpu))
      throw Error(fmt::format("it does not show CPU {}, which ddprun may use", cpu));
  }
  return topology;
}

facts::Topology make_fallback(const std::vector<int>& allowed, const std::string& root) {
  facts::Topology topology = facts::make_flat_topology(allowed);
  topology.cores.clear();
  for (const std::vector<int>& cpus : capture_cores(allowed, root)) topology.cores.push_back({cpus, 0, 0, 0});
  return topology;
}

void take_topology(facts::HostFacts& host, const ChildAnswer& answer, const std::string& root) {
  try {
    host.topology = read_answer(answer, host.allowed_cpus);
  } catch (const Error& error) {
    host.warnings.push_back(
        fmt::format("hwloc could not read this machine: {}; workers are placed by the affinity mask alone",
                    error.what()));
    if (!host.allowed_cpus.empty()) host.topology = make_fallback(host.allowed_cpus, root);
  }
}

bool is_nvidia(const facts::Gpu& gpu) { return gpu.vendor == "nvidia"; }

std::string doubt_about(const ChildAnswer& answer, const std::string& library, const std::string& problem) {
  if (answer.timed_out) return fmt::format("the GPU driver's library gave {}", answer.problem);
  if (!answer.bytes) return fmt::format("the GPU driver's library failed ({})", answer.problem);
  return fmt::format("the GPU driver's library {} {}", library, problem);
}

void take_gpus(facts::HostFacts& host, const ChildAnswer& answer, const HardwareWish& wish) {
  NvmlAnswer told = parse_nvml_answer(answer.bytes.value_or(""));
  if (!answer.bytes || !told.problem.empty()) {
    // A host without a GPU to use leaves no doubt to report.
    if (std::any_of(host.gpus.begin(), host.gpus.end(), is_nvidia)) {
      host.warnings.push_back(doubt_about(answer, wish.nvml, told.problem) +
                              "; GPU identities come from /proc/driver/nvidia");
    }
    return;
  }
  for (const std::string& lost : told.lost)
    host.warnings.push_back(fmt::format("the GPU driver reports an unusable GPU: {}", lost));
  host.nvlink_domain = told.fabric;
  for (facts::Gpu& gpu : told.gpus) gpu.local_cpus = capture_local_cpus(gpu.pci_address, wish.root);
  std::erase_if(host.gpus, is_nvidia);
  host.gpus.insert(host.gpus.begin(), told.gpus.begin(), told.gpus.end());
}

}  // namespace

void capture_hardware(facts::HostFacts& host, const HardwareWish& wish, Milliseconds deadline) {
  std::optional<ChildCall> topology;
  std::optional<ChildCall> gpus;
  if (wish.topology) topology.emplace(tell_topology);
  if (wish.gpus && shows_nvidia(wish.root)) gpus.emplace([&] { return ask_nvml(wish.nvml); });
  if (topology) take_topology(host, topology->wait(deadline), wish.root);
  if (!gpus) return;
  // If nothing keeps the driver loaded (nvidia-persistenced), its first user waits for each GPU to start.
  const auto cold = std::count_if(host.gpus.begin(), host.gpus.end(), is_nvidia);
  take_gpus(host, gpus->wait(deadline + wish.patience * cold), wish);
}

// The libraries that ddprun uses where they are installed: which of them are here.

namespace {

std::string file_of(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return "";
  const link_map* map = nullptr;
  const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0;
  std::string file = known ? map->l_name : library;
  ::dlclose(handle);
  return file;
}

std::string slurm_file() {
  const auto slurm = SlurmApi::open();
  return slurm ? file_of(fmt::format("libslurm.so.{}", slurm->soname())) : "";
}

}  // namespace

std::vector<OptionalLibrary> find_optional_libraries() {
  return {{"libslurm", slurm_file()},
          {"munge", file_of(k_munge_library)},
          {"NVML", file_of(HardwareWish{}.nvml)},
          {"PMIx", file_of(KeyValueRequest{}.library)},
          {"zstd", file_of(k_zstd_library)}};
}

std::string hwloc_version() { return HWLOC_VERSION; }

}  // namespace ddprun::os
