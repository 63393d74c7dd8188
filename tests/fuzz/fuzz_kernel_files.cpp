// Small text files of the kernel, drivers, PBS and Python, in which others choose names: a value or nothing.
#include "check/xid.hpp"
#include "facts/lined_json.hpp"
#include "facts/proc_text.hpp"
#include "facts/program.hpp"
#include "facts/topology.hpp"
#include "promise.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

void require_cpus(const std::vector<int>& cpus) {
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    require(cpus[i] >= 0 && cpus[i] <= facts::k_highest_cpu);
    require(i == 0 || cpus[i - 1] < cpus[i]);
  }
}

void check_processes(const std::string& text) {
  if (const auto cpus = facts::parse_cpu_list(text)) {
    require_cpus(*cpus);
    require(facts::parse_cpu_list(facts::render_cpu_list(*cpus)) == cpus);
  }
  if (const auto nodes = facts::parse_allowed_memory_nodes(text)) require_cpus(*nodes);
  facts::parse_numa_maps(text);
  facts::parse_tracer_pid(text);
  facts::parse_parent_pid(text);
  require(facts::parse_title(text).size() <= 1000);
  facts::parse_cgroups(text);
  const auto quota = facts::parse_cpu_max(text);
  require(!quota || *quota > 0);
  facts::parse_cfs_quota(text, "100000");
  facts::parse_cfs_quota("150000", text);
  if (const auto ports = facts::parse_port_range(text)) {
    require(ports->first >= 0 && ports->first <= ports->second && ports->second <= 65535);
  }
}

void check_hardware(const std::string& text) {
  facts::parse_memory_group(text);
  facts::parse_oom_kills(text);
  if (const auto limit = facts::parse_memory_limit(text)) facts::describe_bytes(*limit);
  facts::parse_kibibytes(text, "MemTotal:");
  facts::parse_inactive_file(text);
  facts::describe_memory_limit(text);
  facts::tells_oom_kill(text, 4000);
  facts::parse_nvidia_information(text);
  facts::parse_kfd_properties(text);
  if (const auto id = facts::parse_pci_id(text)) facts::judge_pci_device(*id, *id, *id);
  facts::normal_pci_address(text);
  check::KernelLog log;
  check::note_kernel_record(text, log);
  require(log.xids.size() <= 1);
  if (const auto xid = check::parse_xid(text)) fuzz::require_printable(xid->text);
}

void check_programs(const std::string& text) {
  facts::with_pbs_home({{"PBS_JOBID", "1"}}, text);
  facts::parse_python_name(text);
  if (const auto version = facts::parse_torch_version(text)) fuzz::require_printable(*version);
  facts::parse_virtual_environment(text);
  facts::judge_program("train", false, true, text);
  facts::judge_program(text, false, false, text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  check_processes(text);
  check_hardware(text);
  check_programs(text);
  return 0;
}
