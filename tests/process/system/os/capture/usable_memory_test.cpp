#include "os/machine/capture_processors.hpp"

#include <unistd.h>

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

TEST_CASE(
    "free memory is what a cgroup's processes have left of its limit, without what the page cache can give") {
  const FakeRoot root;
  CHECK(!free_memory(root.path()));
  root.add("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
  CHECK(free_memory(root.path()) == 8 * k_gibibyte);
  root.add("/proc/self/cgroup", "0::/job_7\n");
  root.add("/sys/fs/cgroup/job_7/memory.max", "4294967296\n");
  root.add("/sys/fs/cgroup/job_7/memory.current", "3221225472\n");
  CHECK(free_memory(root.path()) == 1 * k_gibibyte);
  root.add("/sys/fs/cgroup/job_7/memory.stat", "anon 5\ninactive_file 1073741824\nactive_file 7\n");
  CHECK(free_memory(root.path()) == 2 * k_gibibyte);
  root.add("/sys/fs/cgroup/job_7/memory.current", "6442450944\n");  // a limit that was lowered
  CHECK(free_memory(root.path()) == std::uint64_t{0});
}

TEST_CASE("the memory of a process") {
  CHECK(memory_of(::getpid()).value_or(0) > 1 << 20);
  CHECK(!memory_of(0));
}
