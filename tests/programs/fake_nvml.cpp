// Stands for libnvidia-ml.so.1. FAKE_NVML says what kind of driver this is: "mig", "hidden", "lost",
// "refuse", "hang", "cold" (slow to start), "old" (before 510), "sick" or "crash"; anything else has two
// GPUs. A path instead names the file that says so at the moment, for GPUs without memory in use but by the
// process of FAKE_NVML_PROCESS.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

using Device = uintptr_t;  // 1 and 2: GPUs; 10 and more: instances of the second

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

constexpr int k_room = 256;

bool is_path(const char* told) { return told != nullptr && told[0] == '/'; }

// What the variable, or the file that it names, says; nullptr: nothing.
const char* find_told(const char* name, char (&text)[k_room]) {
  const char* const told = getenv(name);
  if (!is_path(told)) return told;
  FILE* const file = fopen(told, "r");
  const bool read = file != nullptr && fgets(text, k_room, file) != nullptr;
  if (file != nullptr) fclose(file);
  if (read) text[strcspn(text, "\n")] = '\0';
  return read ? text : nullptr;
}

bool is(const char* kind) {
  char text[k_room];
  const char* const told = find_told("FAKE_NVML", text);
  return told != nullptr && strcmp(told, kind) == 0;
}

// Bytes of the process on the second GPU, as that with a path has them.
unsigned long long held() {
  char text[k_room];
  const char* const told = find_told("FAKE_NVML_PROCESS", text);
  char* rest = nullptr;
  return told != nullptr && strtoul(told, &rest, 10) > 0 ? strtoull(rest, nullptr, 10) : 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (is("crash")) raise(SIGKILL);
  while (is("hang")) pause();
  if (is("cold")) usleep(300'000);
  return is("refuse") ? 9 : 0;
}

const char* nvmlErrorString(int error) {
  return error == 9 ? "Driver Not Loaded" : error == 15 ? "GPU is lost" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}

// The order of the driver, which is not that of the addresses here.
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (index == 0 && is("hidden")) return 4;
  if (index == 1 && is("lost")) return 15;
  *device = index + 1;
  return 0;
}

int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:%s:00.0", device == 1 ? "C1" : "41");
  return 0;
}

int nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  const char* const kind = device < 10 ? "GPU" : "MIG";
  snprintf(text, size, "%s-%u", kind, static_cast<unsigned>(device));
  return 0;
}

int nvmlDeviceGetName(Device device, char* text, unsigned size) {
  snprintf(text, size, "NVIDIA Fake %u GB", static_cast<unsigned>(40 * device));
  return 0;
}

int nvmlDeviceGetUtilizationRates(Device device, unsigned* percents) {
  if (is("mig") && device == 2) return 3;  // not supported
  percents[0] = static_cast<unsigned>(30 * device);
  percents[1] = 7;
  return 0;
}

int nvmlDeviceGetMemoryInfo(Device device, unsigned long long* bytes) {
  bytes[0] = 80ULL << 30U;
  bytes[2] = device << 30U;
  bytes[1] = bytes[0] - bytes[2];
  return 0;
}

// What the driver has reserved counts as used in the first version of this call alone.
struct Memory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(Device device, Memory2* info) {
  if (is("old")) return 13;                                         // function not found
  if (info->version != (sizeof(Memory2) | (2U << 24U))) return 25;  // wrong version of the argument
  info->total = 80ULL << 30U;
  info->reserved = 1ULL << 29U;
  info->used = is_path(getenv("FAKE_NVML"))
                   ? (device == 2 ? held() : 0)
                   : (static_cast<unsigned long long>(device) << 30U) - info->reserved;
  info->free = info->total - info->reserved - info->used;
  return 0;
}

// FAKE_NVLINK_DOMAIN=7: the NVLinks of all hosts with this number are one fabric.
struct FabricInfo {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};

int nvmlDeviceGetGpuFabricInfo(Device /*device*/, FabricInfo* info) {
  const char* const domain = getenv("FAKE_NVLINK_DOMAIN");
  memset(info, 0, sizeof *info);
  info->state = 3;
  if (domain != nullptr) info->cluster[15] = static_cast<unsigned char>(atoi(domain));
  info->clique = 1;
  return 0;
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

// With FAKE_NVML=sick the second GPU is. FAKE_NVML_PROCESS="4711 1000000": this process is on it, with so
// many bytes; without a second number the driver does not tell. A path likewise names a file.
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* infos) {
  char text[k_room];
  const char* const told = find_told("FAKE_NVML_PROCESS", text);
  const unsigned room = *count;
  *count = device != 2 ? 0 : is("sick") ? 3 : told != nullptr ? 1 : 0;
  if (*count > 0 && (infos == nullptr || room < *count)) return 7;  // insufficient size
  for (unsigned i = 0; i < *count; ++i) {
    infos[i] = {100 + i, 1ULL << 20U, ~0U, ~0U};
    char* rest = nullptr;
    if (told == nullptr) continue;
    infos[i].pid = static_cast<unsigned>(strtoul(told, &rest, 10));
    infos[i].used = *rest == '\0' ? ~0ULL : strtoull(rest, nullptr, 10);
  }
  return 0;
}

int nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned counter, unsigned long long* count) {
  if (is("old")) return 3;  // not supported
  *count = is("sick") && device == 2 && type == 1 && counter == 0 ? 4 : 0;
  return 0;
}

int nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = *uncorrected = 0;
  *pending = *failed = is("sick") && device == 2 ? 1 : 0;
  return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  *reasons = is("sick") && device == 2 ? 0x41 : 0x1;  // idle, and too hot
  return 0;
}

int nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* lanes) {
  *lanes = is("sick") && device == 2 ? 8 : 16;
  return 0;
}

int nvmlDeviceGetMaxPcieLinkWidth(Device, unsigned* lanes) {
  *lanes = 16;
  return 0;
}

int nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* up) {
  if (is("old")) return 3;
  if (link >= 4) return 2;  // invalid argument
  *up = is("sick") && device == 2 && link == 3 ? 0 : 1;
  return 0;
}

int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  if (!is("mig")) return 3;  // not supported
  *current = *pending = device == 2 ? 1 : 0;
  return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(Device, unsigned* count) {
  *count = 7;
  return 0;
}

// Instances may have gaps.
int nvmlDeviceGetMigDeviceHandleByIndex(Device, unsigned index, Device* instance) {
  if (index != 0 && index != 2) return 6;  // not found
  *instance = 10 + index;
  return 0;
}
}
