#include "facts/proc_text.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("where memory is accounted, under both versions of cgroups") {
  CHECK(parse_memory_group("0::/system.slice/slurmstepd.scope/job_7/step_0\n") ==
        MemoryGroup{"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0", true});
  CHECK(parse_memory_group("9:name=systemd:/\n4:cpu,memory:/slurm/uid_0/job_7\n0::/\n") ==
        MemoryGroup{"/sys/fs/cgroup/memory/slurm/uid_0/job_7", false});
  CHECK(parse_memory_group("0::/\n") == MemoryGroup{"/sys/fs/cgroup", true});
  CHECK_FALSE(parse_memory_group("").has_value());
  CHECK_FALSE(parse_memory_group("nonsense\n3:cpu\n").has_value());
}

TEST_CASE("how many processes were killed for memory") {
  CHECK(parse_oom_kills("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n") == 2);
  CHECK(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n") == 1);
  CHECK_FALSE(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\n").has_value());  // before Linux 4.13
}

TEST_CASE("a limit in words, and none") {
  CHECK(describe_memory_limit("4294967296\n") == "4.0 GiB");
  CHECK(describe_memory_limit("1048576") == "1 MiB");
  CHECK(describe_memory_limit("max\n").empty());
  CHECK(describe_memory_limit("9223372036854771712\n").empty());
}

TEST_CASE("the kernel log names the process") {
  const char* const record =
      "3,1042,98765,-;Memory cgroup out of memory: Killed process 4711 (python3) total-vm:9kB";
  CHECK(tells_oom_kill(record, 4711));
  CHECK_FALSE(tells_oom_kill(record, 471));
}
