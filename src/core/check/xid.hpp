// NVIDIA's Xid errors in the kernel's log: those whose cause is hardware, and what to do about each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "check/finding.hpp"
#include "check/host_record.hpp"

namespace ddprun::check {

// Parses one record of /dev/kmsg (dev-kmsg of the kernel's ABI documentation), as in
// "4,1520,6021874123,-;NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus."
// nullopt for every other record, also for one that a program has written into the log.
std::optional<Xid> parse_xid(std::string_view record);

struct XidMeaning {
  int number;
  const char* what;  // "it fell off the bus"
  const char* fix;
  Mark mark = Mark::error;  // warning: the GPU may be used on
};

// Returns nullptr for an error that a program may cause (13, 31, 43, 45, 109 and others), and for one that is
// not known. After NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors); the NVLink
// errors 144 to 150 are left out, most of which are corrected: a link that is lost shows in the count.
const XidMeaning* find_hardware_fault(const Xid& xid);

// "GPU 0000:41:00.0: Xid 79, it fell off the bus"
std::string describe(const Xid& xid, const XidMeaning& fault);

// Adds the record's error if hardware is its cause, in the place of an older one of the same GPU and number.
void note_kernel_record(std::string_view record, KernelLog& log);

}  // namespace ddprun::check
