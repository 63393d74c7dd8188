#include "os/process/bind_self.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "catch.hpp"
#include "os/machine/capture_processors.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

namespace {

constexpr int k_no_such_cpu = 8000;
constexpr int k_no_such_node = 63;

// What the kernel grants the tests themselves: containers forbid memory policies, small kernels have none.
bool memory_policies_work() {
  int mode = -1;
  return ::syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) == 0 &&
         ::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0) == 0;
}

std::string words(const std::vector<int>& cpus) {
  std::string text;
  for (const int cpu : cpus) text += " " + std::to_string(cpu);
  return text;
}

// Both the worker and its child tell the same.
std::string told(const std::vector<int>& cpus, const std::string& memory) {
  const std::string line = " cpus" + words(cpus) + " memory " + memory + "\n";
  return "worker" + line + "grandchild" + line;
}

SpawnRequest bound_request(const facts::Binding& binding) {
  SpawnRequest request = worker_request({"print_binding"});
  request.binding = binding;
  return request;
}

BindingRefusal refusal_of(const SpawnRequest& request) {
  Child child = start(request);
  CHECK(wait_for_end(child).success());
  REQUIRE(child.refusal().has_value());
  return *child.refusal();
}

}  // namespace

TEST_CASE("a bound child runs where it was told to, and so do its children") {
  const std::vector<int> all = capture_allowed_cpus();
  const std::vector<int> last{all.back()};
  CHECK(output_of(bound_request({})) == told(all, "0:0"));
  CHECK(output_of(bound_request({last, {}, facts::MemoryPolicy::untouched})) == told(last, "0:0"));
  CHECK(refusal_of(bound_request({last, {}, facts::MemoryPolicy::untouched})) == BindingRefusal{});
  if (!memory_policies_work()) SKIP("the kernel grants no memory policies here");
  CHECK(output_of(bound_request({last, {0}, facts::MemoryPolicy::preferred})) == told(last, "1:1"));
  CHECK(output_of(bound_request({{}, {0}, facts::MemoryPolicy::bind})) == told(all, "2:1"));
}

TEST_CASE("a binding that the kernel refuses leaves the child unbound, and says so") {
  const std::vector<int> all = capture_allowed_cpus();
  const facts::Binding nowhere{{k_no_such_cpu}, {0}, facts::MemoryPolicy::bind};
  CHECK(output_of(bound_request(nowhere)) == told(all, "0:0"));
  CHECK(refusal_of(bound_request(nowhere)) == BindingRefusal{EINVAL, 0});

  SECTION("and where ddprun has moved away, on the CPUs it came from") {
    SpawnRequest request = bound_request(nowhere);
    request.unbound_cpus = {all.back()};
    CHECK(output_of(request) == told({all.back()}, "0:0"));
  }
  if (!memory_policies_work()) SKIP("the kernel grants no memory policies here");
  for (const facts::MemoryPolicy policy : {facts::MemoryPolicy::preferred, facts::MemoryPolicy::bind}) {
    const facts::Binding no_memory{{all.front()}, {k_no_such_node}, policy};
    CHECK(output_of(bound_request(no_memory)) == told({all.front()}, "0:0"));
    CHECK(refusal_of(bound_request(no_memory)) == BindingRefusal{0, EINVAL});
  }
}

TEST_CASE("several preferred nodes are preferred, or left alone by a kernel that cannot") {
  if (!memory_policies_work()) SKIP("the kernel grants no memory policies here");
  const SpawnRequest request = bound_request({{}, {0, k_no_such_node}, facts::MemoryPolicy::preferred});
  CHECK(refusal_of(request) == BindingRefusal{});
  const std::string line = output_of(request);
  const bool preferred = line == told(capture_allowed_cpus(), "5:1");  // 5: MPOL_PREFERRED_MANY
  const bool left_alone = line == told(capture_allowed_cpus(), "0:0");
  CAPTURE(line);
  CHECK((preferred || left_alone));
}

TEST_CASE("a child that is held is bound, and waits for its release") {
  Pipe pipe = make_pipe();
  SpawnRequest request = bound_request({{capture_allowed_cpus().back()}, {}, facts::MemoryPolicy::untouched});
  request.standard_output = pipe.writer.get();
  request.hold = true;
  Child child = start(request);
  pipe.writer.close();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!child.refusal() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  REQUIRE(child.refusal() == BindingRefusal{});
  CHECK(read_binding(child.pid())->cpus == request.binding.cpus);

  SECTION("which comes") { child.release(); }
  SECTION("or does not") {}
  CHECK(read_until(pipe.reader.get(), "") == told(request.binding.cpus, "0:0"));
  CHECK(wait_for_end(child).success());
}
