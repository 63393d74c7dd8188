#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "check/finding.hpp"

namespace ddprun::check {

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
