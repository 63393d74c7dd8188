// Judgement of what a node has lost since the job began: its GPUs, their links, its network, CPUs and memory,
// and of the errors of its GPUs in the kernel's log.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "check/finding.hpp"
#include "check/xid.hpp"
#include "facts/memory_text.hpp"

namespace ddprun::check {

namespace {

const GpuHealth* find_gpu(const HostRecord& record, const std::string& address) {
  const auto found = std::ranges::find(record.gpus, address, &GpuHealth::address);
  return found == record.gpus.end() ? nullptr : &*found;
}

void judge_gpu(const GpuHealth& before, const HostRecord& now, std::vector<Finding>& findings) {
  const auto add = [&](std::string what, const char* fix, Mark mark = Mark::warning) {
    report(findings, mark, "GPU", now.host, fmt::format("GPU {}: {}", before.address, what), fix);
  };
  const GpuHealth* const gpu = find_gpu(now, before.address);
  if (gpu == nullptr)
    return add("it is not there any more", "have the site reset the node; leave it out until then",
               Mark::error);
  if (gpu->link_width > 0 && gpu->link_width < before.link_width)
    add(fmt::format("PCIe runs with {} lanes, {} before", gpu->link_width, before.link_width),
        "have the site reset or reseat it");
  if (gpu->nvlinks < before.nvlinks)
    add(fmt::format("{} NVLinks are up, {} before", gpu->nvlinks, before.nvlinks),
        "have the site reset the node (nvidia-smi nvlink -s shows which)");
  if (gpu->rows_pending && !before.rows_pending)
    add("a remapped memory row waits for a reset", "have the site reset it (nvidia-smi -r)");
}

void judge_card(const std::string& name, int before, const HostRecord& now, std::vector<Finding>& findings) {
  const auto found = now.cards.find(name);
  const int speed = found == now.cards.end() ? -1 : found->second;
  const bool down = speed < 0 && before >= 0, slower = speed > 0 && speed < before;
  if (!down && !slower) return;
  report(findings, Mark::warning, "network", now.host,
         down ? fmt::format("{} has no link any more", printable(name, 32))
              : fmt::format("{} runs at {} Mbit/s, {} before", printable(name, 32), speed, before),
         "have the site look at its card and cable");
}

// Errors of before the first attempt are another job's, and of a GPU that this job cannot ask for as well.
void judge_xids(const HostRecord& before, const HostRecord& now, std::vector<Finding>& findings) {
  if (before.kernel_log.newest < 0) return;
  for (const Xid& xid : now.kernel_log.xids) {
    const XidMeaning* const fault = find_hardware_fault(xid);
    if (fault == nullptr || xid.sequence <= before.kernel_log.newest || find_gpu(before, xid.gpu) == nullptr)
      continue;
    report(findings, fault->mark, "GPU", now.host, describe(xid, *fault), fault->fix);
  }
}

std::vector<Finding> find_errors(const HostRecord& record) {
  std::vector<Finding> findings = judge_alone(record);
  std::erase_if(findings, [](const Finding& each) { return each.mark != Mark::error; });
  return findings;
}

}  // namespace

std::vector<Finding> find_faults(const HostRecord& before, const HostRecord& now) {
  std::vector<Finding> findings;
  judge_change(before, now, findings);  // before the GPUs: the kernel's log has the reason of a loss
  // The job was started with the errors of before.
  const std::vector<Finding> known = find_errors(before);
  for (Finding& each : find_errors(now)) {
    const bool is_known = std::ranges::any_of(known, [&](const Finding& other) {
      return other.subject == each.subject && (other.subject != "GPU" || other.what == each.what);
    });
    if (!is_known) findings.push_back(std::move(each));
  }
  std::ranges::stable_sort(findings, {}, [](const Finding& each) { return each.mark != Mark::error; });
  return findings;
}

void judge_change(const HostRecord& before, const HostRecord& now, std::vector<Finding>& findings) {
  judge_xids(before, now, findings);
  // Without any the driver has not answered in time, or its list of GPUs says why.
  if (!now.gpus.empty() && now.gpu_problem.empty() && now.lost_gpus.size() <= before.lost_gpus.size()) {
    for (const GpuHealth& gpu : before.gpus) judge_gpu(gpu, now, findings);
  }
  for (const auto& [card, speed] : before.cards) judge_card(card, speed, now, findings);
  if (now.online_cpus < before.online_cpus) {
    report(findings, Mark::warning, "CPUs", now.host,
           fmt::format("{} CPUs are online, {} before", now.online_cpus, before.online_cpus),
           "have the site see why (machine checks in the kernel's log)");
  }
}

std::optional<Finding> judge_memory(const std::string& host, std::uint64_t used, std::uint64_t free) {
  if (free >= used) return std::nullopt;
  return Finding{Mark::warning,
                 "memory",
                 {host},
                 fmt::format("{} are free, and the workers had used {}", facts::describe_bytes(free),
                             facts::describe_bytes(used)),
                 "see what uses it (ps, ls /dev/shm)"};
}

}  // namespace ddprun::check
