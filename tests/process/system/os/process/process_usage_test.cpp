#include "os/process/process_table.hpp"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"
#include "fake_root.hpp"
#include "inspection/node_usage.hpp"
#include "os/process/child_call.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

void keep_to_one_cpu() {
  cpu_set_t allowed, one;
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  std::size_t cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

// A child whose own child computes until it is killed; `both` compute, on one CPU.
struct BusyFamily {
  explicit BusyFamily(bool both = false) : child(::fork()) {
    REQUIRE(child >= 0);
    ::setpgid(child, child);  // on both sides: it is a group's leader when either goes on
    if (child != 0) return;
    if (both) keep_to_one_cpu();
    if (::fork() == 0 || both) {
      for (;;) ::getppid();
    }
    for (;;) ::pause();
  }
  ~BusyFamily() {
    ::kill(-child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  pid_t child;
};

}  // namespace

TEST_CASE("what a process uses includes all below it") {
  const BusyFamily family;
  std::optional<ProcessUsage> usage;
  while (!usage || usage->cpu_time < Milliseconds{50}) usage = measure_usage({family.child}).front();
  CHECK(usage->memory > 4096);
}

TEST_CASE("a process that others keep from its CPU waits for it") {
  const BusyFamily family(true);
  std::optional<ProcessUsage> usage;
  while (!usage || usage->cpu_wait < Milliseconds{20}) usage = measure_usage({family.child}).front();
  CHECK(usage->own_cpu > Milliseconds{0});
}

TEST_CASE("a process that is not there uses nothing") {
  CHECK_FALSE(measure_usage({0x7fffffff}).front());
  CHECK(measure_usage({}).empty());
}

TEST_CASE("a node's workers are told with what they use") {
  const BusyFamily family;
  status::NodeStatus node{"n1", {}, {}};
  node.workers.resize(2);
  node.workers[0].pid = family.child;
  const status::NodeStatus measured = inspection::measure_node(node, {});
  CHECK(measured.measured > Milliseconds{0});
  CHECK(measured.workers[0].memory > 0);
  CHECK_FALSE(measured.workers[1].memory);
}

// The driver's library is loaded in a child, for the sake of its environment.
TEST_CASE("the use of a worker's GPUs is that of the busiest, their memory that of all") {
  const FakeRoot root;
  root.add("/dev/nvidiactl");
  const auto measure = [&](const char* kind, const std::vector<std::string>& gpus) {
    const ChildAnswer answer = call_in_child(
        [&] {
          ::setenv("FAKE_NVML", kind, 1);
          status::NodeStatus node{"n1", {}, {}};
          node.workers.resize(1);
          return status::render_status(
              measure_node(node, {{gpus}, {}}, inspection::Depth::usage, DDPRUN_FAKE_NVML, root.path()));
        },
        Milliseconds{60000});
    REQUIRE(answer.bytes);
    return status::parse_node_status(*answer.bytes)->workers[0];
  };
  const status::WorkerStatus both = measure("", {"0000:41:00.0", "0000:c1:00.0"});
  CHECK(both.gpu_percent == 60);
  CHECK(both.gpu_memory == std::uint64_t{2} << 30U);
  CHECK(measure("old", {"0000:41:00.0", "0000:c1:00.0"}).gpu_memory == std::uint64_t{3} << 30U);
  const status::WorkerStatus partitioned = measure("mig", {"0000:41:00.0"});
  CHECK_FALSE(partitioned.gpu_percent);
  CHECK(partitioned.gpu_memory == std::uint64_t{3} << 29U);
  CHECK_FALSE(measure("", {}).gpu_memory);
  CHECK_FALSE(measure("refuse", {"0000:41:00.0"}).gpu_memory);
}
