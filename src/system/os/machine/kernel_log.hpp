// Errors of GPUs in the kernel's log.
#pragma once

#include <string>

#include "check/host_record.hpp"

namespace ddprun::os {

// Reads /dev/kmsg from its oldest record on, without waiting for another one. Takes a tenth of a second where
// the kernel keeps much: call it in a child. Empty, with -1 as the newest record, where users may not read
// the log (dmesg_restrict). `root` is in front of the path.
check::KernelLog capture_kernel_log(const std::string& root = {});

}  // namespace ddprun::os
