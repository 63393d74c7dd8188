#include "os/libraries/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "os/libraries/library_function.hpp"

namespace ddprun::os {

namespace {

// The part of nvml.h that is used. Functions whose name ends in a version never change.
using Device = void*;
constexpr int k_no_permission = 4;
constexpr unsigned k_mig_enabled = 1;
constexpr unsigned k_most_gpus = 256;
constexpr unsigned k_most_instances = 64;
constexpr unsigned k_uuid_size = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
constexpr unsigned k_name_size = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE

struct PciInfo {  // nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct Utilization {  // nvmlUtilization_t, percent
  unsigned gpu;
  unsigned memory;
};

struct MemoryInfo {  // nvmlMemory_t, bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct MemoryInfo2 {  // nvmlMemory_v2_t: what the driver has reserved is not used
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
struct FabricInfo {  // nvmlGpuFabricInfo_t
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};
constexpr unsigned char k_fabric_completed = 3;  // NVML_GPU_FABRIC_STATE_COMPLETED

struct ProcessInfo {  // nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long used;  // all bits set: not known
  unsigned gpu_instance;
  unsigned compute_instance;
};
constexpr unsigned k_most_processes = 256;

constexpr unsigned k_memory_version = sizeof(MemoryInfo2) | (2U << 24U);

struct NvmlLibrary {
  int (*init)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Device*) = nullptr;
  int (*pci)(Device, PciInfo*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*model)(Device, char*, unsigned) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*memory)(Device, MemoryInfo*) = nullptr;
  int (*memory2)(Device, MemoryInfo2*) = nullptr;               // from driver 510 on
  int (*fabric)(Device, FabricInfo*) = nullptr;                 // from driver 520 on
  int (*processes)(Device, unsigned*, ProcessInfo*) = nullptr;  // from driver 510 on
  // Drivers before 450 know no MIG.
  int (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;
  int (*mig_count)(Device, unsigned*) = nullptr;
  int (*mig_handle)(Device, unsigned, Device*) = nullptr;

  // Loads the library. Returns an empty string, or the reason of a failure.
  std::string load(const std::string& name) {
    void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fmt::format("cannot be loaded ({})", ::dlerror());
    const bool whole = find_function(library, "nvmlInit_v2", init) &&
                       find_function(library, "nvmlErrorString", error_text) &&
                       find_function(library, "nvmlDeviceGetCount_v2", count) &&
                       find_function(library, "nvmlDeviceGetHandleByIndex_v2", handle) &&
                       find_function(library, "nvmlDeviceGetPciInfo_v3", pci) &&
                       find_function(library, "nvmlDeviceGetUUID", uuid) &&
                       find_function(library, "nvmlDeviceGetName", model);
    if (!find_function(library, "nvmlDeviceGetUtilizationRates", utilization) ||
        !find_function(library, "nvmlDeviceGetMemoryInfo", memory))
      utilization = nullptr;
    if (!find_function(library, "nvmlDeviceGetMemoryInfo_v2", memory2)) memory2 = nullptr;
    if (!find_function(library, "nvmlDeviceGetGpuFabricInfo", fabric)) fabric = nullptr;
    if (!find_function(library, "nvmlDeviceGetComputeRunningProcesses_v3", processes)) processes = nullptr;
    const bool mig = find_function(library, "nvmlDeviceGetMigMode", mig_mode) &&
                     find_function(library, "nvmlDeviceGetMaxMigDeviceCount", mig_count) &&
                     find_function(library, "nvmlDeviceGetMigDeviceHandleByIndex", mig_handle);
    if (!mig) mig_mode = nullptr;
    return whole ? std::string() : std::string("lacks a function");
  }

  std::string describe(int error) const {
    const char* const text = error_text(error);
    return text == nullptr ? fmt::format("error {}", error) : std::string(text);
  }

  std::optional<unsigned long long> used_memory(Device device) const {
    MemoryInfo2 known{};
    known.version = k_memory_version;
    if (memory2 != nullptr && memory2(device, &known) == k_success) return known.used;
    MemoryInfo info{};
    return memory(device, &info) == k_success ? std::optional(info.used) : std::nullopt;
  }

  std::vector<ProcessInfo> processes_on(Device device) const {
    std::vector<ProcessInfo> infos(k_most_processes);
    unsigned found = k_most_processes;
    if (processes == nullptr || processes(device, &found, infos.data()) != k_success) return {};
    infos.resize(std::min(found, k_most_processes));
    return infos;
  }

  std::string uuid_of(Device device) const {
    std::array<char, k_uuid_size> text{};
    return uuid(device, text.data(), k_uuid_size - 1) == k_success ? std::string(text.data()) : std::string();
  }

  std::string model_of(Device device) const {
    std::array<char, k_name_size> text{};
    return model(device, text.data(), k_name_size - 1) == k_success ? printable(text.data()) : std::string();
  }

  // Returns the fabric that the GPU's NVLinks belong to; empty for one that ends with the host.
  std::string fabric_of(Device device) const {
    FabricInfo info{};
    if (fabric == nullptr || fabric(device, &info) != k_success || info.state != k_fabric_completed ||
        info.status != k_success ||
        std::ranges::all_of(info.cluster, [](unsigned char byte) { return byte == 0; }))
      return {};
    return fmt::format("{:02x}.{}", fmt::join(info.cluster, ""), info.clique);
  }

  std::vector<std::string> mig_of(Device device) const {
    std::vector<std::string> uuids;
    unsigned current = 0;
    unsigned pending = 0;
    unsigned most = 0;
    if (mig_mode == nullptr || mig_mode(device, &current, &pending) != k_success ||
        current != k_mig_enabled || mig_count(device, &most) != k_success)
      return uuids;
    for (unsigned i = 0; i < std::min(most, k_most_instances); ++i) {
      Device instance = nullptr;
      if (mig_handle(device, i, &instance) == k_success) uuids.push_back(uuid_of(instance));
    }
    std::erase(uuids, "");
    return uuids;
  }
};

// First words of an answer's lines: a GPU (address, UUID, MIG instances with commas, then its name), one that
// is lost, or no list.
constexpr std::string_view k_gpu = "gpu ";
constexpr std::string_view k_lost = "lost ";
constexpr std::string_view k_problem = "problem ";
constexpr std::string_view k_fabric = "fabric ";    // fabric of the GPU before
constexpr std::string_view k_use = "use ";          // address, percent or '-', bytes
constexpr std::string_view k_process = "process ";  // on the GPU before: number, bytes or '-'

std::string describe_processes(const NvmlLibrary& library, Device device) {
  std::string text;
  for (const ProcessInfo& each : library.processes_on(device)) {
    text +=
        fmt::format("{}{} {}\n", k_process, each.pid, each.used == ~0ULL ? "-" : std::to_string(each.used));
  }
  return text;
}

std::string describe_use(const NvmlLibrary& library, unsigned index, bool with_processes) {
  Device device = nullptr;
  PciInfo pci{};
  Utilization use{};
  if (library.handle(index, &device) != k_success || library.pci(device, &pci) != k_success) return {};
  const auto memory = library.used_memory(device);
  if (!memory) return {};
  pci.bus_id[sizeof pci.bus_id - 1] = '\0';
  const bool known = library.utilization(device, &use) == k_success;
  return fmt::format("{}{} {} {}\n", k_use, facts::normal_pci_address(pci.bus_id),
                     known ? std::to_string(use.gpu) : "-", *memory) +
         (with_processes ? describe_processes(library, device) : "");
}

std::string describe_gpu(const NvmlLibrary& library, unsigned index) {
  Device device = nullptr;
  PciInfo pci{};
  int error = library.handle(index, &device);
  if (error == k_success) error = library.pci(device, &pci);
  // Another job's, kept away by a device control group.
  if (error == k_no_permission) return {};
  if (error != k_success) return fmt::format("{}GPU {}: {}\n", k_lost, index, library.describe(error));
  pci.bus_id[sizeof pci.bus_id - 1] = '\0';
  const std::string uuid = library.uuid_of(device);
  const std::string mig = join(library.mig_of(device), ",");
  const std::string fabric = library.fabric_of(device);
  return fmt::format("{}{} {} {} {}\n", k_gpu, facts::normal_pci_address(pci.bus_id),
                     uuid.empty() ? "-" : uuid, mig.empty() ? "-" : mig, library.model_of(device)) +
         (fabric.empty() ? "" : fmt::format("{}{}\n", k_fabric, fabric));
}

}  // namespace

bool shows_nvidia(const std::string& root) {
  const auto exists = [&](const char* path) { return ::access((root + path).c_str(), F_OK) == 0; };
  return exists("/proc/driver/nvidia") || exists("/dev/nvidiactl") || exists("/dev/dxg");
}

std::string ask_nvml(const std::string& name) {
  NvmlLibrary library;
  if (const std::string problem = library.load(name); !problem.empty())
    return std::string(k_problem) + problem;
  unsigned count = 0;
  // The analyzer does not look into load(), which has found all of these.
  int error = library.init();                             // NOLINT(clang-analyzer-core.CallAndMessage)
  if (error == k_success) error = library.count(&count);  // NOLINT(clang-analyzer-core.CallAndMessage)
  if (error != k_success) return fmt::format("{}reports: {}", k_problem, library.describe(error));
  std::string text;
  for (unsigned i = 0; i < std::min(count, k_most_gpus); ++i) text += describe_gpu(library, i);
  return text;
}

std::string ask_nvml_usage(const std::string& name, bool with_processes) {
  NvmlLibrary library;
  unsigned count = 0;
  const bool ready =
      library.load(name).empty() && library.utilization != nullptr && library.init() == k_success &&
      library.count(&count) == k_success;  // NOLINT(clang-analyzer-core.CallAndMessage): as above
  std::string text;
  for (unsigned i = 0; ready && i < std::min(count, k_most_gpus); ++i)
    text += describe_use(library, i, with_processes);
  return text;
}

std::vector<GpuUsage> parse_nvml_usage(std::string_view text) {
  std::vector<GpuUsage> usages;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> words = split_words(line);
    if (line.starts_with(k_process) && words.size() == 3 && !usages.empty()) {
      GpuProcess& process = usages.back().processes.emplace_back();
      process.pid = static_cast<int>(parse_integer(words[1]).value_or(0));
      if (const auto memory = parse_integer(words[2])) process.memory = static_cast<std::uint64_t>(*memory);
    }
    if (!line.starts_with(k_use) || words.size() != 4) continue;
    GpuUsage& usage = usages.emplace_back();
    usage.pci_address = words[1];
    if (const auto percent = parse_integer(words[2])) usage.percent = static_cast<int>(*percent);
    usage.memory = static_cast<std::uint64_t>(parse_integer(words[3]).value_or(0));
  }
  return usages;
}

NvmlAnswer parse_nvml_answer(std::string_view text) {
  NvmlAnswer answer;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(k_problem)) answer.problem = printable(line.substr(k_problem.size()));
    if (line.starts_with(k_lost)) answer.lost.push_back(printable(line.substr(k_lost.size())));
    if (line.starts_with(k_fabric)) answer.fabric = printable(line.substr(k_fabric.size()));
    if (!line.starts_with(k_gpu)) continue;
    const std::vector<std::string> words = split_words(line);
    if (words.size() < 4) continue;
    facts::Gpu& gpu = answer.gpus.emplace_back(facts::Gpu{"nvidia", words[1]});
    if (words[2] != "-") gpu.uuid = words[2];
    if (words[3] != "-") gpu.mig = split(words[3], ',');
    gpu.model = join({words.begin() + 4, words.end()}, " ");
  }
  std::stable_sort(answer.gpus.begin(), answer.gpus.end(),
                   [](const facts::Gpu& a, const facts::Gpu& b) { return a.pci_address < b.pci_address; });
  return answer;
}

}  // namespace ddprun::os
