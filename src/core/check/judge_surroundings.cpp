#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "check/finding.hpp"
#include "facts/memory_text.hpp"

namespace ddprun::check {

namespace {

constexpr std::uint64_t k_mebi = 1 << 20;
constexpr std::uint64_t k_gibi = 1 << 30;
// torch's data loaders pass batches through shared memory; Docker and Kubernetes give 64 MiB.
constexpr std::uint64_t k_little_shared_memory = 256 * k_mebi;
constexpr std::uint64_t k_no_shared_memory = 8 * k_mebi;  // NCCL takes about that much for each pair of ranks
constexpr std::uint64_t k_no_room = 16 * k_mebi;
constexpr std::uint64_t k_little_room = 256 * k_mebi;
constexpr double k_slow_writing = 1e6;  // bytes per second
// A worker holds a descriptor for each rank that it is connected to, each data loader and each open file. A
// world of one with gloo has 21 open (torch 2.13), and runs with that limit.
constexpr std::uint64_t k_files_of_worker = 32;
constexpr std::uint64_t k_sparse_files = 1024;
constexpr std::uint64_t k_few_processes = 512;  // threads count too: torch starts dozens for each worker
constexpr std::uint64_t k_memory_of_worker = k_gibi / 2;  // Python with torch imported, and a small model

void judge_shared_memory(const HostRecord& record, const Folder& folder, std::vector<Finding>& findings) {
  if (folder.free >= k_little_shared_memory) return;
  const bool none = folder.free < k_no_shared_memory;
  report(findings, none ? Mark::error : Mark::warning, "shared memory", record.host,
         fmt::format("{} has {} free of {}; data loaders and NCCL share memory there and end with SIGBUS "
                     "when it is full",
                     folder.path, facts::describe_bytes(folder.free), facts::describe_bytes(folder.size)),
         "remove what earlier jobs left there, or start the container with more (--shm-size, an emptyDir of "
         "medium Memory)");
}

// ddprun and Python then use /tmp.
bool goes_on_without(const HostRecord& record, const Folder& folder) {
  return folder.purpose == "temporary files" && std::ranges::any_of(record.folders, [&](const Folder& other) {
           return other.purpose == k_beside_tmpdir && other.path != folder.path && other.problem.empty();
         });
}

void judge_folder(const HostRecord& record, const Folder& folder, std::vector<Finding>& findings) {
  const std::string name = fmt::format("{} ({})", folder.path, folder.purpose);
  if (!folder.problem.empty() && goes_on_without(record, folder)) {
    report(findings, Mark::warning, "disk", record.host,
           fmt::format("cannot write to {}: {}; a job would use /tmp instead", name, folder.problem),
           "create it, or set TMPDIR to another folder");
    return;
  }
  if (!folder.problem.empty()) {
    report(
        findings,
        folder.purpose == "log folder" || folder.purpose == "temporary files" ? Mark::error : Mark::warning,
        "disk", record.host, fmt::format("cannot write to {}: {}", name, folder.problem),
        "create it, or name another folder");
    return;
  }
  if (folder.free < k_little_room) {
    report(findings, folder.free < k_no_room ? Mark::error : Mark::warning, "disk", record.host,
           fmt::format("{} has {} free of {}", name, facts::describe_bytes(folder.free),
                       facts::describe_bytes(folder.size)),
           "free space there, or name another folder (TMPDIR, --log-dir)");
  }
  if (folder.write_rate > 0 && folder.write_rate < k_slow_writing) {
    report(findings, Mark::warning, "disk", record.host,
           fmt::format("writing to {} is slower than {} per second", name, facts::describe_bytes(k_mebi)),
           "write checkpoints and logs to another file system");
  }
}

void judge_limits(const HostRecord& record, std::vector<Finding>& findings) {
  const auto limit = [&](const char* name) {
    const auto found = record.limits.find(name);
    return found == record.limits.end() ? k_unlimited : found->second;
  };
  if (const std::uint64_t files = limit("nofile"); files < k_sparse_files) {
    const std::uint64_t least = k_files_of_worker + static_cast<std::uint64_t>(std::max(record.workers, 1));
    report(
        findings, files < least ? Mark::error : Mark::warning, "limits", record.host,
        fmt::format(
            "a process may open {} files (ulimit -n); data loaders and connections between ranks need more",
            files),
        "add ulimit -n 4096 to the batch script, or have the site raise the limit");
  }
  if (const std::uint64_t processes = limit("nproc"); processes < k_few_processes) {
    report(findings, Mark::warning, "limits", record.host,
           fmt::format("the user may have {} processes and threads (ulimit -u)", processes),
           "add ulimit -u 4096 to the batch script, or have the site raise the limit");
  }
  if (const std::uint64_t locked = limit("memlock"); record.infiniband && locked < k_gibi) {
    report(findings, Mark::error, "limits", record.host,
           fmt::format("a process may lock {} of memory (ulimit -l), and RDMA registers what it sends",
                       facts::describe_bytes(locked)),
           "have the site set memlock to unlimited (Slurm: LimitMEMLOCK of slurmd's service)");
  }
}

void judge_share(const HostRecord& record, std::vector<Finding>& findings) {
  const double cpus = record.cpu_quota > 0 ? std::min<double>(record.cpus, record.cpu_quota) : record.cpus;
  if (record.workers > 1 && cpus < record.workers && record.online_cpus >= record.workers) {
    report(findings, Mark::warning, "CPUs", record.host,
           fmt::format("{} workers share {:.3g} of the node's {} CPUs", record.workers, cpus,
                       record.online_cpus),
           "ask for more CPUs: --cpus-per-task (srun -c), ncpus, or srun --cpu-bind=none");
  }
  const std::uint64_t need = k_memory_of_worker * static_cast<std::uint64_t>(std::max(record.workers, 1));
  if (record.free_memory > 0 && record.free_memory < need) {
    report(findings, Mark::warning, "memory", record.host,
           fmt::format("{} of memory are free for {}", facts::describe_bytes(record.free_memory),
                       count_of(record.workers, "worker")),
           "ask for more memory (--mem, mem=), or see which processes use it");
  }
}

}  // namespace

void judge_surroundings(const HostRecord& record, std::vector<Finding>& findings) {
  if (!record.python_problem.empty()) {
    report(findings, Mark::error, "Python", record.host, record.python_problem,
           "set PYTHON_EXEC to a Python that all nodes have, or unset it");
  }
  for (const Folder& folder : record.folders) {
    if (folder.purpose == k_beside_tmpdir) continue;
    folder.purpose == "shared memory" && folder.problem.empty()
        ? judge_shared_memory(record, folder, findings)
        : judge_folder(record, folder, findings);
  }
  judge_limits(record, findings);
  judge_share(record, findings);
}

}  // namespace ddprun::check
