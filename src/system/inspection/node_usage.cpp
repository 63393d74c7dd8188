#include "inspection/node_usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "inspection/native_stacks.hpp"
#include "os/atomic_file.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/libraries/nvml.hpp"
#include "os/process/process_table.hpp"
#include "os/system_failure.hpp"
#include "status/moment.hpp"

namespace ddprun::inspection {

namespace {

// Share of StatusRound::k_limit; the rest is for writing, reading and the network.
constexpr Milliseconds k_native_limit{2000};

constexpr const char* k_nvml = "libnvidia-ml.so.1";

void add_gpu(status::WorkerStatus& worker, const os::GpuUsage& gpu) {
  if (gpu.percent) worker.gpu_percent = std::max(worker.gpu_percent.value_or(0), *gpu.percent);
  worker.gpu_memory = worker.gpu_memory.value_or(0) + gpu.memory;
}

void add_usage(status::WorkerStatus& worker, const os::ProcessUsage& usage) {
  worker.cpu_time = usage.cpu_time;
  worker.own_cpu = usage.own_cpu;
  worker.cpu_wait = usage.cpu_wait;
  worker.memory = usage.memory;
  worker.io = usage.io;
}

void add_gpus(status::NodeStatus& status, const std::vector<std::vector<std::string>>& gpus,
              const std::string& nvml, const std::string& root) {
  const bool uses_gpus = std::ranges::any_of(gpus, [](const auto& of_worker) { return !of_worker.empty(); });
  if (!uses_gpus || !os::shows_nvidia(root)) return;
  const std::vector<os::GpuUsage> of_node = os::parse_nvml_usage(os::ask_nvml_usage(nvml));
  for (std::size_t i = 0; i < status.workers.size() && i < gpus.size(); ++i) {
    for (const os::GpuUsage& gpu : of_node) {
      if (std::ranges::find(gpus[i], gpu.pci_address) != gpus[i].end()) add_gpu(status.workers[i], gpu);
    }
  }
}

// Writes the records. Returns an empty text, or the first file that could not be written, and why.
std::string write_records(const std::vector<std::string>& paths, const std::vector<std::string>& texts) {
  std::string problem;
  for (std::size_t i = 0; i < texts.size() && i < paths.size(); ++i) {
    if (texts[i].empty() || paths[i].empty()) continue;
    const os::OpenedFile opened = os::open_to_append(paths[i]);
    if (opened.file && os::write_whole(opened.file.get(), texts[i])) continue;
    if (problem.empty())
      problem = paths[i] + ": " + (opened.file ? os::describe_errno(errno) : opened.problem);
  }
  return problem;
}

struct Measured {
  status::NodeStatus status;
  std::vector<status::Collected> collected;
};

Measured measure(status::NodeStatus status, const WorkerPlaces& places, Depth depth, const std::string& nvml,
                 const std::string& root) {
  const TimePoint deadline = os::now() + k_native_limit;
  std::vector<int> pids;
  for (const status::WorkerStatus& worker : status.workers) pids.push_back(worker.pid);
  const auto usages = os::measure_usage(pids);
  status.measured =
      std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now().time_since_epoch());
  for (std::size_t i = 0; i < status.workers.size(); ++i) {
    if (usages[i]) add_usage(status.workers[i], *usages[i]);
  }
  auto collected = inspect_workers(status.workers, places.doors, depth >= Depth::dump);
  if (depth >= Depth::dump) add_native_stacks(status.workers, collected, deadline);
  if (depth != Depth::signs) add_gpus(status, places.gpus, nvml, root);
  return {std::move(status), std::move(collected)};
}

std::vector<std::string> render_records(const Measured& measured, int attempt) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < measured.status.workers.size(); ++i)
    texts.push_back(status::render_stack_record(measured.status.host, measured.status.workers[i],
                                                measured.collected[i], os::unix_milliseconds(), attempt));
  return texts;
}

// Writes the dump over the oldest one. Returns as write_records() does.
std::string write_dump(const WorkerPlaces& places, const Measured& measured) {
  status::Moment moment = *places.moment;
  // Within its limits.
  if (auto node = status::parse_node_status(status::render_status(measured.status)))
    moment.job.here.push_back(std::move(*node));
  for (std::size_t i = 0; i < measured.status.workers.size(); ++i) {
    const status::Collected& collected = measured.collected[i];
    if (auto history =
            status::parse_history(measured.status.workers[i].rank, collected.record, collected.module,
                                  moment.time * 1'000'000, status::k_dumped_calls))
      moment.histories.push_back(std::move(*history));
  }
  const std::string path = fmt::format("{}.{}.json", places.dump, moment.number % status::k_kept_dumps);
  std::error_code ignored;  // replace_file() says it
  std::filesystem::create_directory(std::filesystem::path(path).parent_path(), ignored);
  const std::string problem = os::replace_file(path, status::render_moment(moment));
  return problem.empty() ? "" : path + ": " + problem;
}

std::string write_files(const WorkerPlaces& places, const Measured& measured, Depth depth) {
  const std::string problem = places.moment ? write_dump(places, measured) : "";
  if (depth != Depth::stacks) return problem;
  const std::string other = write_records(places.records, render_records(measured, places.attempt));
  return problem.empty() ? other : problem;
}

}  // namespace

status::NodeStatus measure_node(status::NodeStatus status, const WorkerPlaces& places, Depth depth,
                                const std::string& nvml, const std::string& root) {
  return measure(std::move(status), places, depth, nvml, root).status;
}

os::AnsweringChild measure_node_in_child(status::NodeStatus status, WorkerPlaces places, Depth depth,
                                         int problem) {
  Measured measured;
  const auto answer = [&] {
    measured = measure(std::move(status), places, depth, k_nvml, "");
    return status::render_status(measured.status);
  };
  const auto write = [&] { os::write_whole(problem, write_files(places, measured, depth)); };
  const bool writes = writes_files(places, depth);
  return os::AnsweringChild(answer, "measure what the workers use",
                            writes ? std::function<void()>(write) : nullptr);
}

}  // namespace ddprun::inspection
