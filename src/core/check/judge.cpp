#include <fmt/format.h>
#include <algorithm>

#include "base/text.hpp"
#include "check/finding.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::check {

namespace {

bool is_same(const Finding& one, const Finding& other) {
  return one.mark == other.mark && one.subject == other.subject && one.what == other.what &&
         one.fix == other.fix;
}

// Joins equal findings of several nodes into one.
std::vector<Finding> join_equal(std::vector<Finding> findings) {
  std::vector<Finding> joined;
  for (Finding& finding : findings) {
    const auto known =
        std::ranges::find_if(joined, [&](const Finding& each) { return is_same(each, finding); });
    if (known == joined.end()) {
      joined.push_back(std::move(finding));
      continue;
    }
    for (std::string& host : finding.hosts) {
      if (std::ranges::find(known->hosts, host) == known->hosts.end())
        known->hosts.push_back(std::move(host));
    }
  }
  std::ranges::stable_sort(joined,
                           [](const Finding& one, const Finding& other) { return one.mark < other.mark; });
  return joined;
}

}  // namespace

std::vector<Finding> judge(const std::vector<HostRecord>& records) {
  std::vector<Finding> findings;
  const bool several = records.size() > 1;
  for (const HostRecord& record : records) {
    judge_surroundings(record, findings);
    judge_names(record, several, findings);
    judge_variables(record, several, findings);
    judge_gpus(record, findings);
  }
  judge_connections(records, findings);
  judge_likeness(records, findings);
  return join_equal(std::move(findings));
}

std::vector<Finding> judge_alone(const HostRecord& record) {
  std::vector<Finding> findings;
  judge_surroundings(record, findings);
  judge_variables(record, true, findings);
  judge_gpus(record, findings);
  return findings;
}

std::string reason_of(const Finding& finding) {
  return finding.what.starts_with(finding.subject) ? finding.what : finding.subject + ": " + finding.what;
}

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

namespace {

bool is_on(const std::string& value) { return !value.empty() && value != "0"; }
bool is_off(const std::string& value) { return value == "0"; }
bool is_detail(const std::string& value) { return to_upper(value) == "DETAIL"; }
bool is_trace(const std::string& value) { return to_upper(value) == "TRACE"; }
bool is_any(const std::string& value) { return !value.empty(); }
bool is_empty(const std::string& value) { return value.empty() || value == "-1" || value == "void"; }
bool names_loopback(const std::string& value) { return value == "lo" || value == "=lo"; }
bool is_tcp_provider(const std::string& value) { return value == "tcp" || value == "sockets"; }

// Conditions under which a variable counts.
enum class Where { anywhere, several_nodes, gpus, rdma };

struct HurtfulVariable {
  const char* name;
  bool (*hurts)(const std::string& value);
  Where where;
  Mark mark;
  const char* what;  // completes "NAME=value "
};

// Sources: NCCL's documentation of environment variables; torch's notes on CUDA environment variables and
// torch/distributed (debug levels, ProcessGroupNCCL); fi_tcp(7) of libfabric; the CUDA programming guide.
constexpr HurtfulVariable k_hurtful[] = {
    {"NCCL_SOCKET_IFNAME", names_loopback, Where::several_nodes, Mark::error,
     "lets NCCL listen where no other node reaches it"},
    {"GLOO_SOCKET_IFNAME", names_loopback, Where::several_nodes, Mark::error,
     "lets gloo listen where no other node reaches it"},
    {"NCCL_IB_DISABLE", is_on, Where::rdma, Mark::warning,
     "keeps NCCL off the RDMA network that the node has"},
    {"NCCL_NET", [](const std::string& value) { return to_lower(value) == "socket"; }, Where::rdma,
     Mark::warning, "keeps NCCL off the RDMA network that the node has"},
    {"FI_PROVIDER", is_tcp_provider, Where::rdma, Mark::warning,
     "keeps libfabric off the RDMA network that the node has"},
    {"NCCL_P2P_DISABLE", is_on, Where::gpus, Mark::warning,
     "keeps the GPUs of a node from copying to each other"},
    {"NCCL_SHM_DISABLE", is_on, Where::gpus, Mark::warning,
     "sends what the GPUs of a node exchange over the network"},
    {"NCCL_ALGO", is_any, Where::gpus, Mark::warning,
     "overrides NCCL's choice, which depends on size and topology"},
    {"NCCL_PROTO", is_any, Where::gpus, Mark::warning,
     "overrides NCCL's choice; LL128 corrupts data where it is not supported"},
    {"NCCL_DEBUG", is_trace, Where::gpus, Mark::warning, "writes a line for each NCCL call"},
    {"CUDA_LAUNCH_BLOCKING", is_on, Where::gpus, Mark::warning, "makes every kernel launch wait"},
    {"HIP_LAUNCH_BLOCKING", is_on, Where::gpus, Mark::warning, "makes every kernel launch wait"},
    {"AMD_SERIALIZE_KERNEL", is_on, Where::gpus, Mark::warning, "makes every kernel launch wait"},
    {"CUDA_VISIBLE_DEVICES", is_empty, Where::anywhere, Mark::warning, "hides every GPU"},
    {"NVIDIA_VISIBLE_DEVICES", is_empty, Where::anywhere, Mark::warning,
     "hides every GPU from the container"},
    {"TORCH_DISTRIBUTED_DEBUG", is_detail, Where::anywhere, Mark::warning,
     "checks every collective through a second process group, and doubles their time"},
    {"TORCH_NCCL_BLOCKING_WAIT", is_on, Where::gpus, Mark::warning,
     "makes the CPU wait for every collective"},
    {"NCCL_BLOCKING_WAIT", is_on, Where::gpus, Mark::warning, "makes the CPU wait for every collective"},
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", is_off, Where::gpus, Mark::warning,
     "lets a collective whose peer is gone wait forever"},
    {"NCCL_ASYNC_ERROR_HANDLING", is_off, Where::gpus, Mark::warning,
     "lets a collective whose peer is gone wait forever"},
    {"TORCH_SHOW_CPP_STACKTRACES", is_on, Where::anywhere, Mark::warning,
     "makes every torch error resolve C++ symbols, which takes seconds"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", is_any, Where::gpus, Mark::warning,
     "makes every tensor ask the driver for memory"},
};

bool has_gpus(const HostRecord& record) { return !record.gpus.empty() || record.visible_gpus > 0; }

bool counts(const HurtfulVariable& row, const HostRecord& record, bool several) {
  switch (row.where) {
    case Where::several_nodes:
      return several;
    case Where::gpus:
      return has_gpus(record);
    case Where::rdma:
      return record.infiniband;
    case Where::anywhere:
      break;
  }
  return true;
}

// Judges the value: gloo wants whole names, NCCL beginnings of names.
void judge_interface(const HostRecord& record, const char* name, bool exact, std::vector<Finding>& findings) {
  const auto set = record.variables.find(name);
  if (set == record.variables.end() || set->second.empty() || set->second.front() == '^') return;
  const std::string value = set->second.substr(set->second.front() == '=' ? 1 : 0);
  const bool whole = exact || set->second.front() == '=';
  const auto names = split(value, ',');
  const bool known = std::ranges::any_of(names, [&](const std::string& part) {
    return std::ranges::any_of(record.interfaces, [&](const std::string& each) {
      return whole ? each == part : each.starts_with(part);
    });
  });
  if (known) return;
  report(findings, Mark::error, "variables", record.host,
         fmt::format("{}={} names no interface that is up ({})", name, printable(set->second, 80),
                     printable(join(record.interfaces, ", "), 120)),
         fmt::format("unset {}: ddprun sets it where it is needed", name));
}

}  // namespace

std::vector<std::string> known_variables() {
  std::vector<std::string> names;
  for (const HurtfulVariable& row : k_hurtful) names.emplace_back(row.name);
  return names;
}

void judge_variables(const HostRecord& record, bool several, std::vector<Finding>& findings) {
  for (const HurtfulVariable& row : k_hurtful) {
    const auto set = record.variables.find(row.name);
    if (set == record.variables.end() || !row.hurts(set->second) || !counts(row, record, several)) continue;
    report(findings, row.mark, "variables", record.host,
           fmt::format("{}={} {}", row.name, printable(set->second, 80), row.what),
           fmt::format("unset {}, unless that is what you want", row.name));
  }
  judge_interface(record, "GLOO_SOCKET_IFNAME", true, findings);
  if (several || has_gpus(record)) judge_interface(record, "NCCL_SOCKET_IFNAME", false, findings);
}

}  // namespace ddprun::check
