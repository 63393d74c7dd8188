#include "inspection/gpu_holders.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/text.hpp"
#include "os/libraries/nvml.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::inspection {

namespace {

constexpr std::size_t k_users = std::size_t{1} << 20;  // bytes of /etc/passwd

// No name service is asked, which may hang: a user it alone has is told by number.
std::string name_of_user(unsigned id) {
  for (const std::string& line : split(os::read_head("/etc/passwd", k_users), '\n')) {
    const std::vector<std::string> fields = split(line, ':');
    if (fields.size() > 2 && fields[2] == std::to_string(id)) return fields[0];
  }
  return std::to_string(id);
}

check::GpuHolder describe_holder(const os::GpuProcess& process) {
  check::GpuHolder holder;
  holder.pid = process.pid;
  if (process.memory) holder.memory = static_cast<std::int64_t>(*process.memory);
  struct stat owner {};
  const auto seen = os::capture_process(process.pid);
  if (!seen || ::stat(fmt::format("/proc/{}", process.pid).c_str(), &owner) != 0) return holder;
  holder.name = printable(seen->name);
  holder.user = printable(name_of_user(owner.st_uid));
  return holder;
}

}  // namespace

std::vector<check::GpuMemory> capture_gpu_memory(const std::string& nvml, const std::string& root) {
  std::vector<check::GpuMemory> gpus;
  if (!os::shows_nvidia(root)) return gpus;
  for (const os::GpuUsage& usage : os::parse_nvml_usage(os::ask_nvml_usage(nvml, true))) {
    check::GpuMemory& gpu = gpus.emplace_back();
    gpu.address = usage.pci_address;
    gpu.used = usage.memory;
    for (const os::GpuProcess& each : usage.processes) gpu.holders.push_back(describe_holder(each));
  }
  return gpus;
}

}  // namespace ddprun::inspection
