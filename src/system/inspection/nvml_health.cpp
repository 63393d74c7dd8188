#include "inspection/nvml_health.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <vector>

#include "base/text.hpp"
#include "check/record_fields.hpp"
#include "facts/proc_text.hpp"
#include "os/libraries/library_function.hpp"
#include "os/libraries/nvml.hpp"
#include "os/process/process_table.hpp"
#include "os/read_file.hpp"

namespace ddprun::inspection {

namespace {

// The part of nvml.h that is used.
using HealthDevice = void*;
constexpr unsigned k_most_devices = 256;
constexpr unsigned k_most_links = 18;  // NVML_NVLINK_MAX_LINKS
constexpr unsigned k_uncorrected = 1;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr unsigned k_volatile = 0;     // NVML_VOLATILE_ECC: since the driver was loaded
constexpr unsigned k_name_bytes = 96;
constexpr unsigned k_memory_version_2 = 2U << 24U;

struct HealthPciInfo {  // nvmlPciInfo_t
  char legacy_bus_id[16];
  unsigned numbers[5];
  char bus_id[32];
};
struct HealthMemory {  // nvmlMemory_v2_t
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct SlowReason {
  unsigned long long bit;  // bit of nvmlClocksThrottleReasons
  const char* name;
};
constexpr SlowReason k_slow_reasons[] = {{0x8, "hardware slowdown"},
                                         {0x20, "software thermal slowdown"},
                                         {0x40, "hardware thermal slowdown"},
                                         {0x80, "power brake"}};

class HealthLibrary {
 public:
  bool load(const std::string& name) {
    handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    return handle_ != nullptr && call<int()>("nvmlInit_v2") == os::k_success;
  }

  // An error code where the library has no such function.
  template <class Signature, class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    Signature* function = nullptr;
    constexpr int k_not_found = 13;  // NVML_ERROR_FUNCTION_NOT_FOUND
    return os::find_function(handle_, name, function) ? function(arguments...) : k_not_found;
  }

  unsigned count() const {
    unsigned devices = 0;
    return call<int(unsigned*)>("nvmlDeviceGetCount_v2", &devices) == os::k_success
               ? std::min(devices, k_most_devices)
               : 0;
  }

  bool describe(unsigned index, check::GpuHealth& gpu) const {
    HealthDevice device = nullptr;
    HealthPciInfo pci{};
    if (call<int(unsigned, HealthDevice*)>("nvmlDeviceGetHandleByIndex_v2", index, &device) !=
            os::k_success ||
        call<int(HealthDevice, HealthPciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &pci) != os::k_success)
      return false;
    pci.bus_id[sizeof pci.bus_id - 1] = '\0';
    gpu.address = facts::normal_pci_address(pci.bus_id);
    std::array<char, k_name_bytes> model{};
    if (call<int(HealthDevice, char*, unsigned)>("nvmlDeviceGetName", device, model.data(),
                                                 k_name_bytes - 1) == os::k_success)
      gpu.model = model.data();
    read_use(device, gpu);
    read_errors(device, gpu);
    read_clocks_and_links(device, gpu);
    return true;
  }

 private:
  void read_use(HealthDevice device, check::GpuHealth& gpu) const {
    HealthMemory memory{};
    memory.version = sizeof memory | k_memory_version_2;
    if (call<int(HealthDevice, HealthMemory*)>("nvmlDeviceGetMemoryInfo_v2", device, &memory) ==
        os::k_success) {
      gpu.memory = memory.total;
      gpu.used = memory.used;
    }
    unsigned processes = 0;  // no room for their numbers: the answer is their count, or that there are more
    constexpr int k_insufficient_size = 7;
    const int result = call<int(HealthDevice, unsigned*, void*)>(
        "nvmlDeviceGetComputeRunningProcesses_v3", device, &processes, static_cast<void*>(nullptr));
    if (result == os::k_success || result == k_insufficient_size) gpu.processes = static_cast<int>(processes);
  }

  void read_errors(HealthDevice device, check::GpuHealth& gpu) const {
    unsigned long long errors = 0;
    if (call<int(HealthDevice, unsigned, unsigned, unsigned long long*)>(
            "nvmlDeviceGetTotalEccErrors", device, k_uncorrected, k_volatile, &errors) == os::k_success)
      gpu.uncorrected = static_cast<std::int64_t>(errors);
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    if (call<int(HealthDevice, unsigned*, unsigned*, unsigned*, unsigned*)>(
            "nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed) ==
        os::k_success) {
      gpu.rows_pending = pending != 0;
      gpu.rows_failed = failed != 0;
    }
  }

  void read_clocks_and_links(HealthDevice device, check::GpuHealth& gpu) const {
    unsigned long long reasons = 0;
    if (call<int(HealthDevice, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons", device,
                                                     &reasons) == os::k_success) {
      for (const SlowReason& reason : k_slow_reasons) {
        if ((reasons & reason.bit) != 0) gpu.slowed.emplace_back(reason.name);
      }
    }
    unsigned width = 0, full = 0;
    if (call<int(HealthDevice, unsigned*)>("nvmlDeviceGetCurrPcieLinkWidth", device, &width) ==
            os::k_success &&
        call<int(HealthDevice, unsigned*)>("nvmlDeviceGetMaxPcieLinkWidth", device, &full) == os::k_success) {
      gpu.link_width = static_cast<int>(width);
      gpu.full_link_width = static_cast<int>(full);
    }
    for (unsigned link = 0; link < k_most_links; ++link) {
      unsigned up = 0;
      if (call<int(HealthDevice, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState", device, link, &up) !=
          os::k_success)
        break;
      ++(up != 0 ? gpu.nvlinks : gpu.nvlinks_down);
    }
  }

  void* handle_ = nullptr;
};

}  // namespace

std::string ask_nvml_health(const std::string& name) {
  HealthLibrary library;
  if (!library.load(name)) return {};
  std::vector<check::GpuHealth> gpus;
  for (unsigned i = 0; i < library.count(); ++i) {
    if (check::GpuHealth gpu; library.describe(i, gpu)) gpus.push_back(std::move(gpu));
  }
  return check::render_json_text(gpus);
}

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
