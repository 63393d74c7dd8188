#include "facts/proc_text.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("who traces a process is in its status") {
  CHECK(parse_tracer_pid("Name:\tsh\nPid:\t12\nTracerPid:\t812\nUid:\t0\n") == 812);
  CHECK(parse_tracer_pid("Name:\tsh\nTracerPid:\t0\n") == 0);
  CHECK_FALSE(parse_tracer_pid("Name:\tsh\n"));
  CHECK_FALSE(parse_tracer_pid("TracerPid:\tnobody\n"));
}

TEST_CASE("a list of CPUs is read and written as the kernel does") {
  CHECK(parse_cpu_list("0-3,8,10-11\n") == std::vector<int>{0, 1, 2, 3, 8, 10, 11});
  CHECK(parse_cpu_list("\n") == std::vector<int>{});
  CHECK(parse_cpu_list("2047") == std::vector<int>{2047});
  CHECK(render_cpu_list({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
  CHECK(render_cpu_list({}) == "");
  for (const char* text : {"3-1", "a", "1,", "0-", "-1", "1,1", "5,3", "0-4000000000", "1;2", "0-70000"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_cpu_list(text));
  }
}

TEST_CASE("the memory policy of a process is read from its first mapping") {
  const auto bound = [](MemoryPolicy policy, std::vector<int> nodes) {
    return Binding{{}, std::move(nodes), policy};
  };
  CHECK(parse_numa_maps("5625056ec000 default file=/usr/bin/cat mapped=2 N0=2\n") == Binding{});
  CHECK(parse_numa_maps("400000 prefer:3 file=/usr/bin/python3.11 mapped=2\n") ==
        bound(MemoryPolicy::preferred, {3}));
  CHECK(parse_numa_maps("400000 prefer (many):0,2-3 anon=1\n") == bound(MemoryPolicy::preferred, {0, 2, 3}));
  CHECK(parse_numa_maps("400000 bind:0-1 heap\nother bind:7\n") == bound(MemoryPolicy::bind, {0, 1}));
  CHECK(parse_numa_maps("400000 bind=static:1\n") == bound(MemoryPolicy::bind, {1}));
  CHECK(parse_numa_maps("400000 interleave:0-1 heap\n") == Binding{});
  CHECK(parse_numa_maps("400000 local\n") == Binding{});
  for (const char* text : {"", "400000", "400000 bind", "400000 bind: x", "400000 prefer:a\n"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_numa_maps(text));
  }
}

TEST_CASE("a CPU quota is a number of CPUs or none") {
  CHECK(parse_cpu_max("150000 100000\n") == 1.5);
  CHECK_FALSE(parse_cpu_max("max 100000\n"));
  CHECK_FALSE(parse_cpu_max("100000 0\n"));
  CHECK_FALSE(parse_cpu_max(""));
  CHECK(parse_cfs_quota("400000\n", "100000\n") == 4.0);
  CHECK_FALSE(parse_cfs_quota("-1\n", "100000\n"));
  CHECK_FALSE(parse_cfs_quota("", ""));
}

TEST_CASE("control groups are found in both versions") {
  CHECK(parse_cgroups("0::/system.slice/slurmstepd.scope/job_29/step_0\n") ==
        CgroupPaths{"/system.slice/slurmstepd.scope/job_29/step_0", std::nullopt, ""});
  CHECK(parse_cgroups("9:name=systemd:/\n4:cpu,cpuacct:/slurm/uid_1/job_29\n3:cpuset:/a:b\n0::/u\n") ==
        CgroupPaths{"/u", "/slurm/uid_1/job_29", "cpu,cpuacct"});
  CHECK(parse_cgroups("garbage\n1:cpuset\n::\n") == CgroupPaths{});
}

TEST_CASE("a range of ports is two ascending numbers") {
  CHECK(parse_port_range("32768\t60999\n") == std::pair(32768, 60999));
  for (const char* text : {"", "1", "2 1", "1 65536", "-1 5", "1 2 3"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_port_range(text));
  }
}

TEST_CASE("a parent is found behind any process name") {
  CHECK(parse_parent_pid("12 (a b) c) S 7 12 12 0 -1\n") == 7);
  CHECK(parse_parent_pid("1 (init) S 0 1 1\n") == 0);
  for (const char* text : {"", "12 (a", "12 (a) S", "12 (a) S x", "12 (a) S -3"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_parent_pid(text));
  }
}

TEST_CASE("a title is one line of limited length") {
  CHECK(parse_title(std::string_view("slurmstepd: [29.0]\0\0\0", 21)) == "slurmstepd: [29.0]");
  CHECK(parse_title(std::string_view("bash\0-c\0x\0", 10)) == "bash -c x");
  CHECK(parse_title("").empty());
  CHECK(parse_title(std::string(5000, 'a')).size() == 1000);
}

TEST_CASE("the status file tells which NUMA nodes give memory") {
  const std::string status =
      "Name:\tx\nMems_allowed:\t00000000,00000009\nMems_allowed_list:\t0,3\nvoluntary_ctxt_switches:\t1\n";
  CHECK(parse_allowed_memory_nodes(status) == std::vector<int>{0, 3});
  CHECK_FALSE(parse_allowed_memory_nodes("Name:\tx\n"));
  CHECK_FALSE(parse_allowed_memory_nodes("Mems_allowed_list:\tx\n"));
}
