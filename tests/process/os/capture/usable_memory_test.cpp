#include "os/machine/usable_memory.hpp"

#include "catch.hpp"
#include "fake_root.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {
constexpr std::uint64_t k_gibibyte = std::uint64_t{1} << 30;
}

TEST_CASE("usable memory is the host's or the least limit of the cgroups around") {
  const FakeRoot root;
  CHECK(!usable_memory(root.path()));
  root.add("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 5 kB\n");
  CHECK(usable_memory(root.path()) == 16 * k_gibibyte);
  root.add("/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  CHECK(usable_memory(root.path()) == 16 * k_gibibyte);
  root.add("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  root.add("/sys/fs/cgroup/slurm/job_7/memory.max", "4294967296\n");
  root.add("/sys/fs/cgroup/slurm/memory.max", "8589934592\n");
  CHECK(usable_memory(root.path()) == 4 * k_gibibyte);
}

TEST_CASE("usable memory with cgroups of version 1") {
  const FakeRoot root;
  root.add("/proc/meminfo", "MemTotal:       16777216 kB\n");
  root.add("/proc/self/cgroup", "4:memory:/job_7\n0::/\n");
  root.add("/sys/fs/cgroup/memory/job_7/memory.limit_in_bytes", "2147483648\n");
  root.add("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(usable_memory(root.path()) == 2 * k_gibibyte);
}
