// NVIDIA's management library, asked for the GPUs that this process may open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "facts/snapshot.hpp"

namespace ddprun::os {

// Reports whether an NVIDIA driver shows itself below `root`, or Windows' own below Linux (WSL 2): only there
// is its library worth loading.
bool shows_nvidia(const std::string& root = "");

// Loads `library` and lists the GPUs in PCI order, as text that parse_nvml_answer understands. May take long,
// hang or crash, as the driver does: call it in a child. The driver's state is left to the process' end.
std::string ask_nvml(const std::string& library);

struct NvmlAnswer {
  std::vector<facts::Gpu> gpus;   // with UUID and MIG instances, without local CPUs
  std::vector<std::string> lost;  // "GPU 3: GPU is lost": there, but not usable
  std::string fabric{};           // HostFacts::nvlink_domain
  std::string problem;            // reason why there is no list; empty when there is one
};
NvmlAnswer parse_nvml_answer(std::string_view text);

struct GpuProcess {
  int pid = 0;
  std::optional<std::uint64_t> memory;  // bytes; nullopt: the driver does not tell
};
struct GpuUsage {
  std::string pci_address;
  std::optional<int> percent;  // share of time in which a kernel ran; unknown with MIG instances
  std::uint64_t memory = 0;    // bytes that are used
  std::vector<GpuProcess> processes;
};
// Does as ask_nvml, for the GPUs' current use; with the processes that compute on them if asked for.
std::string ask_nvml_usage(const std::string& library, bool with_processes = false);
std::vector<GpuUsage> parse_nvml_usage(std::string_view text);

}  // namespace ddprun::os
