#include "os/capture/capture_hardware.hpp"

#include <stdlib.h>

#include "catch.hpp"
#include "facts/proc_text.hpp"
#include "fake_root.hpp"
#include "os/machine/capture_gpus.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/process/child_call.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

constexpr Milliseconds k_ample{20000};

// A machine with two NVIDIA GPUs as the kernel's files show them.
void add_gpus(const FakeRoot& root) {
  root.add("/dev/nvidiactl");
  root.add("/dev/nvidia0");
  root.add("/dev/nvidia1");
  const std::string folder = "/proc/driver/nvidia/gpus/";
  root.add(folder + "0000:41:00.0/information", "Device Minor: \t 0\n");
  root.add(folder + "0000:c1:00.0/information", "Device Minor: \t 1\n");
  root.add("/sys/bus/pci/devices/0000:c1:00.0/numa_node", "0\n");
  root.add("/sys/bus/pci/devices/0000:c1:00.0/local_cpulist", "0-1\n");
}

const std::vector<facts::Gpu> k_cheap{{"nvidia", "0000:41:00.0"}, {"nvidia", "0000:c1:00.0", "", {0, 1}, {}}};

// What is known after the driver's library of this kind was asked. In a child, for the sake of its
// environment.
facts::HostFacts ask(const std::string& kind, const std::string& root, Milliseconds deadline = k_ample,
                     const std::string& library = DDPRUN_FAKE_NVML, Milliseconds patience = Milliseconds{0}) {
  const ChildAnswer answer = call_in_child(
      [&] {
        ::setenv("FAKE_NVML", kind.c_str(), 1);
        facts::Snapshot snapshot;
        snapshot.host.gpus = capture_gpus(root);
        capture_hardware(
            snapshot.host,
            {.topology = false, .gpus = true, .root = root, .nvml = library, .patience = patience}, deadline);
        return facts::render_snapshot(snapshot);
      },
      Milliseconds{60000});
  INFO(answer.problem);
  REQUIRE(answer.bytes);
  return facts::parse_snapshot(*answer.bytes, "the child's answer").host;
}

}  // namespace

TEST_CASE("the driver's library tells which GPUs there are, in PCI order") {
  const FakeRoot root;
  add_gpus(root);
  const facts::HostFacts host = ask("", root.path());
  CHECK(host.gpus ==
        std::vector<facts::Gpu>{{"nvidia", "0000:41:00.0", "GPU-2", {}, {}, "NVIDIA Fake 80 GB"},
                                {"nvidia", "0000:c1:00.0", "GPU-1", {0, 1}, {}, "NVIDIA Fake 40 GB"}});
  CHECK(host.warnings.empty());
}

TEST_CASE("the driver's library tells the NVLink domain that spans hosts") {
  const FakeRoot root;
  add_gpus(root);
  CHECK(ask("", root.path()).nvlink_domain.empty());  // a cluster without a number is this host alone
  ::setenv("FAKE_NVLINK_DOMAIN", "7", 1);
  const std::string found = ask("", root.path()).nvlink_domain;
  ::unsetenv("FAKE_NVLINK_DOMAIN");
  CHECK(found == "00000000000000000000000000000007.1");
}

TEST_CASE("MIG instances are listed with their GPU") {
  const FakeRoot root;
  add_gpus(root);
  const facts::HostFacts host = ask("mig", root.path());
  REQUIRE(host.gpus.size() == 2);
  CHECK(host.gpus[0].mig == std::vector<std::string>{"MIG-10", "MIG-12"});
  CHECK(host.gpus[1].mig.empty());
}

TEST_CASE("a GPU that this job may not open does not count, although its files are there") {
  const FakeRoot root;
  add_gpus(root);
  const facts::HostFacts host = ask("hidden", root.path());
  CHECK(host.gpus ==
        std::vector<facts::Gpu>{{"nvidia", "0000:41:00.0", "GPU-2", {}, {}, "NVIDIA Fake 80 GB"}});
  CHECK(host.warnings.empty());
}

TEST_CASE("a driver that starts each GPU first is waited for longer the more there are") {
  const FakeRoot root;
  add_gpus(root);
  CHECK(ask("cold", root.path(), Milliseconds{1}).warnings.size() == 1);
  CHECK(ask("cold", root.path(), Milliseconds{1}, DDPRUN_FAKE_NVML, k_ample).warnings.empty());
}

TEST_CASE("below WSL 2 the driver's library is asked although no driver shows in /proc") {
  const FakeRoot root;
  root.add("/dev/dxg");
  CHECK(ask("", root.path()).gpus.size() == 2);
  CHECK(ask("refuse", root.path()).warnings.empty());
}

TEST_CASE("a GPU that is lost is named") {
  const FakeRoot root;
  add_gpus(root);
  const facts::HostFacts host = ask("lost", root.path());
  CHECK(host.gpus.size() == 1);
  CHECK(host.warnings ==
        std::vector<std::string>{"the GPU driver reports an unusable GPU: GPU 1: GPU is lost"});
}

TEST_CASE("other vendors' GPUs stay behind NVIDIA's") {
  const FakeRoot root;
  add_gpus(root);
  root.add("/dev/kfd");
  root.add("/sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 440\nlocation_id 256\ndomain 0\n");
  const facts::HostFacts host = ask("hidden", root.path());
  REQUIRE(host.gpus.size() == 2);
  CHECK(host.gpus[0].vendor == "nvidia");
  CHECK(host.gpus[1].vendor == "amd");
}

TEST_CASE("a driver's library that fails leaves what the kernel's files tell, and a doubt") {
  const FakeRoot root;
  add_gpus(root);
  const auto doubt = [&](const std::string& kind, Milliseconds deadline, const std::string& library) {
    const facts::HostFacts host = ask(kind, root.path(), deadline, library);
    CHECK(host.gpus == k_cheap);
    REQUIRE(host.warnings.size() == 1);
    const std::string end = "; GPU identities come from /proc/driver/nvidia";
    REQUIRE(host.warnings[0].ends_with(end));
    return host.warnings[0].substr(0, host.warnings[0].size() - end.size());
  };
  const std::string fake = DDPRUN_FAKE_NVML;
  CHECK(doubt("hang", Milliseconds{200}, fake) == "the GPU driver's library gave no answer within 200 ms");
  CHECK(doubt("crash", k_ample, fake) == "the GPU driver's library failed (ended by signal 9)");
  CHECK(doubt("refuse", k_ample, fake) == "the GPU driver's library " + fake + " reports: Driver Not Loaded");
  CHECK(doubt("", k_ample, "libm.so.6") == "the GPU driver's library libm.so.6 lacks a function");
  CHECK(
      doubt("", k_ample, "libnothing.so.7") ==
      "the GPU driver's library libnothing.so.7 cannot be loaded (libnothing.so.7: cannot open shared object "
      "file: No such file or directory)");
}

TEST_CASE("without a GPU to use there is nothing to be in doubt about") {
  const FakeRoot root;
  root.add("/proc/driver/nvidia/version");
  const facts::HostFacts host = ask("refuse", root.path());
  CHECK(host.gpus.empty());
  CHECK(host.warnings.empty());
}

TEST_CASE("without an NVIDIA driver its library is not loaded") {
  const FakeRoot root;
  const facts::HostFacts host = ask("crash", root.path());
  CHECK(host.gpus.empty());
  CHECK(host.warnings.empty());
}

TEST_CASE("the topology of this machine holds what this process may use") {
  facts::HostFacts host;
  host.allowed_cpus = capture_allowed_cpus();
  capture_hardware(host, {.topology = true, .gpus = false}, k_ample);
  REQUIRE(host.topology);
  CHECK(host.warnings.empty());
  CHECK(host.topology->source.starts_with("hwloc 2."));
  const std::vector<int> cpus = facts::all_cpus(*host.topology);
  CHECK(std::includes(cpus.begin(), cpus.end(), host.allowed_cpus.begin(), host.allowed_cpus.end()));
}

TEST_CASE("what was not asked for is not read") {
  facts::HostFacts host;
  host.allowed_cpus = {0};
  capture_hardware(host, {.topology = false, .gpus = false}, k_ample);
  CHECK_FALSE(host.topology);
  CHECK(host.warnings.empty());
}

TEST_CASE("a machine that cannot be read is the allowed CPUs and their siblings") {
  const FakeRoot root;
  root.add("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n");
  facts::HostFacts host;
  host.allowed_cpus = {0, 1, 2};
  capture_hardware(host, {.topology = true, .gpus = false, .root = root.path()}, Milliseconds{0});
  CHECK(host.warnings ==
        std::vector<std::string>{"hwloc could not read this machine: no answer within 0 ms; workers "
                                 "are placed by the affinity mask alone"});
  REQUIRE(host.topology);
  CHECK(host.topology->source == "affinity mask alone");
  CHECK(host.topology->cores == std::vector<facts::Core>{{{0, 2}, 0, 0, 0}, {{1}, 0, 0, 0}});
  CHECK(host.topology->nodes == std::vector<facts::MemoryNode>{{0, {0, 1, 2}, 0}});
}

TEST_CASE("a topology without one of our CPUs is not this machine's") {
  facts::HostFacts host;
  host.allowed_cpus = {0, facts::k_highest_cpu};
  capture_hardware(host, {.topology = true, .gpus = false}, k_ample);
  CHECK(host.warnings ==
        std::vector<std::string>{
            "hwloc could not read this machine: it does not show CPU 65535, which ddprun may use; "
            "workers are placed by the affinity mask alone"});
  REQUIRE(host.topology);
  CHECK(facts::all_cpus(*host.topology) == host.allowed_cpus);
}
