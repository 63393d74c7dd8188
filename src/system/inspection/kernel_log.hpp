// Errors of GPUs in the kernel's log.
#pragma once

#include <string>

#include "check/host_record.hpp"
#include "os/fd.hpp"

namespace ddprun::inspection {

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

}  // namespace ddprun::inspection
