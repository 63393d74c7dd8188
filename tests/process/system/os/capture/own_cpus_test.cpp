#include "os/machine/capture_processors.hpp"

#include <signal.h>

#include <thread>

#include "catch.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

TEST_CASE("ddprun keeps to CPUs it is told, and stays where it is when it may not") {
  const std::vector<int> all = capture_allowed_cpus();
  // In a thread of its own: the mask is a thread's, and the other tests keep theirs.
  std::thread([&] {
    CHECK_FALSE(keep_to_cpus({8000}));
    CHECK_FALSE(keep_to_cpus({}));
    CHECK(read_affinity(0) == all);
    CHECK(keep_to_cpus({all.back()}));
    CHECK(read_affinity(0) == std::vector<int>{all.back()});
    CHECK_FALSE(keep_to_cpus({8000}));
    CHECK(read_affinity(0) == std::vector<int>{all.back()});
  }).join();
  CHECK(read_affinity(0) == all);
}

TEST_CASE("the binding of a running process is read back from the kernel") {
  Pipe pipe = make_pipe();
  SpawnRequest request = worker_request({"sleep_forever"});
  request.standard_output = pipe.writer.get();
  request.binding = {{capture_allowed_cpus().back()}, {0}, facts::MemoryPolicy::preferred};
  Child child = start(request);
  CHECK(read_until(pipe.reader.get(), "ready\n") == "ready\n");

  const auto binding = read_binding(child.pid());
  REQUIRE(binding.has_value());
  CHECK(binding->cpus == request.binding.cpus);
  REQUIRE(child.refusal().has_value());
  if (child.refusal()->memory == 0) CHECK(*binding == request.binding);

  child.send_signal(SIGKILL);
  wait_for_end(child);
  CHECK_FALSE(read_binding(child.pid()).has_value());
}

TEST_CASE("what is not bound shows the mask of whoever started it, and no memory policy") {
  Pipe pipe = make_pipe();
  SpawnRequest request = worker_request({"sleep_forever"});
  request.standard_output = pipe.writer.get();
  Child child = start(request);
  read_until(pipe.reader.get(), "ready\n");
  CHECK(read_binding(child.pid()) ==
        facts::Binding{capture_allowed_cpus(), {}, facts::MemoryPolicy::untouched});
  child.send_signal(SIGKILL);
  wait_for_end(child);
}
