#include "facts/stuck_process.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("a process in uninterruptible sleep is told with the place in the kernel, where that is shown") {
  StuckProcess process{4711, "python3", 'D', "nvidia_close", 0, {}};
  CHECK(describe(process) == "pid 4711 (python3) is in uninterruptible sleep (state D) in nvidia_close");
  CHECK(hint_for(process, "n1") ==
        "a driver, a file system or a frozen cgroup blocks it, and no signal ends it; see dmesg on n1");
  process.wait_channel.clear();
  CHECK(describe(process) == "pid 4711 (python3) is in uninterruptible sleep (state D)");
  process.state = 'R';
  CHECK(describe(process) == "pid 4711 (python3) is in state R");
}

TEST_CASE("a process that its tracer holds is told with the tracer") {
  const StuckProcess process{4711, "python3", 'Z', "", 812, "gdb"};
  CHECK(describe(process) == "pid 4711 (python3) is traced by gdb (pid 812), which has not released it");
  CHECK(hint_for(process, "n1") == "detach the tracer or end it: kill 812");
}
