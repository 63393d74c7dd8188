#include <fmt/format.h>

#include "base/text.hpp"
#include "check/finding.hpp"
#include "facts/memory_text.hpp"

namespace ddprun::check {

namespace {

constexpr std::uint64_t k_idle_memory = std::uint64_t{1} << 30;  // most of an idle GPU

class GpuJudge {
 public:
  GpuJudge(const HostRecord& record, const GpuHealth& gpu, std::vector<Finding>& findings)
      : record_(record), gpu_(gpu), findings_(findings) {}

  void judge() {
    if (gpu_.uncorrected > 0) {
      add(Mark::error, fmt::format("{} uncorrected ECC errors", gpu_.uncorrected),
          "have the site reset or replace it; leave the node out until then");
    }
    if (gpu_.rows_failed)
      add(Mark::error, "no spare memory rows are left", "have the site replace it; leave the node out");
    if (gpu_.rows_pending)
      add(Mark::warning, "a remapped memory row waits for a reset", "have the site reset it (nvidia-smi -r)");
    judge_use();
    if (!gpu_.slowed.empty()) {
      add(Mark::warning, "its clocks are lowered: " + join(gpu_.slowed, ", "),
          "have the site check cooling and power; the slowest GPU sets the pace");
    }
    judge_links();
  }

 private:
  void judge_use() {
    if (gpu_.processes > 0) {
      add(Mark::warning,
          fmt::format("{} on it already, with {} in use",
                      gpu_.processes == 1 ? "a process is" : fmt::format("{} processes are", gpu_.processes),
                      facts::describe_bytes(gpu_.used)),
          "see whose they are (nvidia-smi), and end what an earlier job left");
    } else if (gpu_.used > k_idle_memory) {
      add(Mark::warning,
          fmt::format("{} of its memory are in use before the job", facts::describe_bytes(gpu_.used)),
          "see what uses it (nvidia-smi), or have the site reset it");
    }
  }

  void judge_links() {
    if (gpu_.link_width > 0 && gpu_.link_width < gpu_.full_link_width) {
      add(Mark::warning, fmt::format("PCIe runs with {} of {} lanes", gpu_.link_width, gpu_.full_link_width),
          "have the site reseat or replace it");
    }
    if (gpu_.nvlinks_down > 0) {
      add(Mark::warning,
          fmt::format("{} of {} NVLinks are down", gpu_.nvlinks_down, gpu_.nvlinks + gpu_.nvlinks_down),
          "have the site reset the node (nvidia-smi nvlink -s shows which)");
    }
  }

  void add(Mark mark, const std::string& what, const char* fix) {
    report(findings_, mark, "GPU", record_.host, fmt::format("GPU {}: {}", gpu_.address, what), fix);
  }

  const HostRecord& record_;
  const GpuHealth& gpu_;
  std::vector<Finding>& findings_;
};

}  // namespace

void judge_gpus(const HostRecord& record, std::vector<Finding>& findings) {
  for (const std::string& lost : record.lost_gpus) {
    report(findings, Mark::error, "GPU", record.host, printable(lost, 120),
           "have the site reset the node; leave it out until then");
  }
  if (!record.gpu_problem.empty()) {
    report(findings, Mark::error, "GPU", record.host,
           "the NVIDIA driver shows no GPUs: " + printable(record.gpu_problem, 120),
           "run nvidia-smi there; have the site reload the driver");
  }
  for (const GpuHealth& gpu : record.gpus) GpuJudge(record, gpu, findings).judge();
}

}  // namespace ddprun::check
