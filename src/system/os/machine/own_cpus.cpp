#include "os/machine/own_cpus.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>

#include "facts/proc_text.hpp"
#include "os/process/bind_self.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::os {

namespace {

constexpr std::size_t k_first_mapping = 4096;  // the whole of numa_maps is long, and costly to write

}  // namespace

bool keep_to_cpus(const std::vector<int>& cpus) {
  const BindingRefusal refusal = bind_self(prepare_binding({cpus, {}, facts::MemoryPolicy::untouched}, {}));
  return !cpus.empty() && refusal.cpus == 0;
}

std::vector<int> read_affinity(int pid) {
  std::vector<int> cpus;
  // The kernel refuses a mask smaller than its own with EINVAL, so the mask grows until it fits.
  for (std::size_t count = 1024; count <= std::size_t{facts::k_highest_cpu} + 1; count *= 2) {
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(count) / sizeof(cpu_set_t));
    const std::size_t size = mask.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(pid, size, mask.data()) != 0) {
      if (errno == EINVAL) continue;
      return cpus;
    }
    for (std::size_t cpu = 0; cpu < count; ++cpu) {
      if (CPU_ISSET_S(cpu, size, mask.data())) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
  }
  return cpus;
}

std::optional<facts::Binding> read_binding(int pid) {
  // Looked at first: what has ended has no mappings, but keeps its mask until it is reaped.
  const std::string mappings =
      sees_own_processes() ? read_head(fmt::format("/proc/{}/numa_maps", pid), k_first_mapping) : "";
  std::vector<int> cpus = read_affinity(pid);
  if (cpus.empty()) return std::nullopt;
  facts::Binding binding = facts::parse_numa_maps(mappings).value_or(facts::Binding{});
  binding.cpus = std::move(cpus);
  return binding;
}

}  // namespace ddprun::os
