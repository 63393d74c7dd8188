// Condition of this host: limits, room in folders, the interface's MTU, what the kernel's log says.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "check/host_record.hpp"
#include "os/descriptors.hpp"

namespace ddprun::inspection {

// Errors of GPUs in the kernel's log.

// Reads /dev/kmsg from its oldest record on, without waiting for another one. Takes a tenth of a second where
// the kernel keeps much: call it in a child. Empty, with -1 as the newest record, where users may not read
// the log (dmesg_restrict). `root` is in front of the path.
check::KernelLog capture_kernel_log(const std::string& root = {});

// Watch for new errors.
class KernelLogWatch {
 public:
  explicit KernelLogWatch(const std::string& root = {});
  // Returns the errors since this was made. Reads what was added since the last call.
  const check::KernelLog& read();

 private:
  os::Fd file_;
  check::KernelLog log_;
};

std::string kernel_release();  // "6.1.0-18-amd64"
std::string processor_model(
    const std::string& root = {});  // "AMD EPYC 7763 64-Core Processor"; empty: not told
// Versions of GPU drivers by name, "NVIDIA driver" -> "550.54.15"; empty where there are none.
std::map<std::string, std::string> driver_versions(const std::string& root = {});
// Returns the soft limits of this process: "nofile", "nproc" and "core" as numbers, "memlock" in bytes. The
// largest number is no limit.
std::map<std::string, std::uint64_t> soft_limits();
int interface_mtu(const std::string& interface);  // bytes; 0: not known
bool has_rdma(const std::string& root = {});      // InfiniBand, RoCE, Omni-Path or Slingshot
// Returns the interfaces that are cards (no bridge, no tunnel) and up: their speed in Mbit/s, 0 where it is
// not told, -1 without a carrier. From /sys/class/net/NAME (sysfs-class-net of the kernel's ABI
// documentation).
std::map<std::string, int> capture_cards(const std::string& root = {});
int count_search_domains(const std::string& root = {});  // number in /etc/resolv.conf

struct FolderState {
  std::uint64_t size = 0;  // bytes of its file system
  std::uint64_t free = 0;  // bytes that this user may take
  double write_rate = 0;   // bytes per second of what reached the disk; 0: nothing was written
  std::string problem;     // reason why nothing can be written: "permission denied"
};
// Writes `bytes` at most, for about 0.3 s, to a file without a name and drops it. May wait for as long as the
// file system does: call it in a child.
FolderState try_folder(const std::string& path, std::uint64_t bytes);

// Reports whether the file system of this file has no room for another line of this user's. Returns false if
// it does not tell.
bool is_on_full_disk(const std::string& path);

}  // namespace ddprun::inspection
