// Facts that are too slow to read for every command line: topology, GPUs, installed libraries.
#pragma once

#include <string>
#include <vector>

#include "base/duration.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::os {

// Hardware that is too slow to read for every command line: the topology, and the GPU driver's own list.
// Both may hang or crash inside other people's code, so each runs in a child of its own with a limit; a
// failure becomes a line of HostFacts::doubts and leaves what was known before.

inline constexpr Milliseconds k_hardware_deadline{2000};

struct HardwareWish {
  bool topology = true;  // with the locality of GPUs and network cards
  bool gpus = true;      // names, UUIDs and MIG instances by the driver's library, where there is one
  // Prefix of /dev, /proc and /sys where GPUs are looked for, and the library that knows them; for tests.
  std::string root{};
  std::string nvml = "libnvidia-ml.so.1";
  Milliseconds patience{2000};  // beyond the deadline, for each NVIDIA GPU that the kernel's files show
};

// Reads the hardware. If there is an NVIDIA driver, the list of its own library replaces that of
// capture_gpus: it knows which GPUs this process may really open, their UUIDs and their MIG instances. A
// topology that cannot be read is replaced by the allowed CPUs and their SMT siblings. Blocks until
// `deadline` at most, and longer by HardwareWish::patience for GPUs that are only starting. Only for
// processes with a single thread.
void capture_hardware(facts::HostFacts& host, const HardwareWish& wish,
                      Milliseconds deadline = k_hardware_deadline);

// The libraries that ddprun uses where they are installed, for --version.

struct OptionalLibrary {
  std::string name;  // name for people: "libslurm"
  std::string file;  // the file that was loaded; empty where there is none
};

// Loads each library and calls nothing in it.
std::vector<OptionalLibrary> find_optional_libraries();

// Returns "2.9.0": hwloc is linked.
std::string hwloc_version();

}  // namespace ddprun::os
