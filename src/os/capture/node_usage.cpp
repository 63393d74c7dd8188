#include "os/capture/node_usage.hpp"

#include <algorithm>

#include "os/libraries/nvml.hpp"
#include "os/process/process_usage.hpp"

namespace ddprun::os {

namespace {

void add_gpu(status::WorkerStatus& worker, const GpuUsage& gpu) {
  if (gpu.percent) worker.gpu_percent = std::max(worker.gpu_percent.value_or(0), *gpu.percent);
  worker.gpu_memory = worker.gpu_memory.value_or(0) + gpu.memory;
}

}  // namespace

status::NodeStatus measure_node(status::NodeStatus status, const std::vector<std::vector<std::string>>& gpus,
                                const std::string& nvml, const std::string& root) {
  std::vector<int> pids;
  for (const status::WorkerStatus& worker : status.workers) pids.push_back(worker.pid);
  const auto usages = measure_usage(pids);
  status.measured =
      std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now().time_since_epoch());
  const bool uses_gpus = std::ranges::any_of(gpus, [](const auto& of_worker) { return !of_worker.empty(); });
  const std::vector<GpuUsage> of_node =
      uses_gpus && shows_nvidia(root) ? parse_nvml_usage(ask_nvml_usage(nvml)) : std::vector<GpuUsage>();
  for (std::size_t i = 0; i < status.workers.size(); ++i) {
    status::WorkerStatus& worker = status.workers[i];
    if (const auto& usage = usages[i]) {
      worker.cpu_time = usage->cpu_time;
      worker.memory = usage->memory;
    }
    for (const GpuUsage& gpu : of_node) {
      const bool is_its = i < gpus.size() && std::ranges::find(gpus[i], gpu.pci_address) != gpus[i].end();
      if (is_its) add_gpu(worker, gpu);
    }
  }
  return status;
}

AnsweringChild measure_node_in_child(status::NodeStatus status, std::vector<std::vector<std::string>> gpus) {
  return AnsweringChild([&] { return status::render_status(measure_node(std::move(status), gpus)); },
                        "measure what the workers use");
}

}  // namespace ddprun::os
