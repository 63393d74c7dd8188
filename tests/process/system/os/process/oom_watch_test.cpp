#include "os/process/process_table.hpp"

#include "catch.hpp"
#include "fake_root.hpp"

using namespace ddprun;
using namespace ddprun::os;

TEST_CASE("a kill is explained by a count that has risen, once each") {
  const FakeRoot root;
  const std::string group = "/sys/fs/cgroup/job_7";
  root.add("/proc/self/cgroup", "0::/job_7\n");
  root.add(group + "/memory.events", "oom 4\noom_kill 3\n");
  root.add(group + "/memory.max", "4294967296\n");
  OomWatch watch(root.path());
  CHECK(watch.explain_kill(4711).empty());
  root.add(group + "/memory.events", "oom 5\noom_kill 4\n");
  CHECK(watch.explain_kill(4711) == "the limit of 4.0 GiB of its cgroup was reached");
  CHECK(watch.explain_kill(4712).empty());
}

TEST_CASE("version 1 has other names, and a cgroup without a limit is said so") {
  const FakeRoot root;
  const std::string group = "/sys/fs/cgroup/memory/job_7";
  root.add("/proc/self/cgroup", "4:memory:/job_7\n0::/\n");
  root.add(group + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
  root.add(group + "/memory.limit_in_bytes", "9223372036854771712\n");
  OomWatch watch(root.path());
  root.add(group + "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  CHECK(watch.explain_kill(1) == "the memory of its cgroup was used up");
}

TEST_CASE("where no count can be read the kernel log may say it") {
  const FakeRoot root;
  root.add("/dev/kmsg", "3,1,2,-;Out of memory: Killed process 4711 (python3) total-vm:1kB\n");
  OomWatch watch(root.path());
  CHECK(watch.explain_kill(4711) == "the kernel's OOM killer killed it (kernel log)");
  CHECK(watch.explain_kill(4712).empty());
}
