// Small text files of the kernel, drivers, PBS and Python, in which others choose names: a value or nothing.
#include "ddprun/facts/gpu_text.hpp"
#include "ddprun/facts/memory_text.hpp"
#include "ddprun/facts/pbs_home.hpp"
#include "ddprun/facts/proc_text.hpp"
#include "ddprun/facts/program.hpp"
#include "ddprun/facts/python_facts.hpp"
#include "ddprun/facts/topology.hpp"
#include "promise.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

void require_cpus(const std::vector<int>& cpus) {
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    require(cpus[i] >= 0 && cpus[i] <= k_highest_cpu);
    require(i == 0 || cpus[i - 1] < cpus[i]);
  }
}

void check_processes(const std::string& text) {
  if (const auto cpus = parse_cpu_list(text)) {
    require_cpus(*cpus);
    require(parse_cpu_list(render_cpu_list(*cpus)) == cpus);
  }
  if (const auto nodes = parse_allowed_memory_nodes(text)) require_cpus(*nodes);
  parse_numa_maps(text);
  parse_tracer_pid(text);
  parse_parent_pid(text);
  require(parse_title(text).size() <= 1000);
  parse_cgroups(text);
  const auto quota = parse_cpu_max(text);
  require(!quota || *quota > 0);
  parse_cfs_quota(text, "100000");
  parse_cfs_quota("150000", text);
  if (const auto ports = parse_port_range(text)) {
    require(ports->first >= 0 && ports->first <= ports->second && ports->second <= 65535);
  }
}

void check_hardware(const std::string& text) {
  parse_memory_group(text);
  parse_oom_kills(text);
  if (const auto limit = parse_memory_limit(text)) describe_bytes(*limit);
  parse_total_memory(text);
  describe_memory_limit(text);
  tells_oom_kill(text, 4000);
  parse_nvidia_information(text);
  parse_kfd_properties(text);
  if (const auto id = parse_pci_id(text)) judge_pci_device(*id, *id, *id);
  normal_pci_address(text);
}

void check_programs(const std::string& text) {
  with_pbs_home({{"PBS_JOBID", "1"}}, text);
  parse_python_name(text);
  if (const auto version = parse_torch_version(text)) fuzz::require_printable(*version);
  parse_virtual_environment(text);
  judge_program("train", false, true, text);
  judge_program(text, false, false, text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  check_processes(text);
  check_hardware(text);
  check_programs(text);
  return 0;
}
