#include "os/capture/capture.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "catch.hpp"
#include "facts/lined_json.hpp"
#include "fake_root.hpp"
#include "os/machine/capture_gpus.hpp"
#include "os/machine/capture_network.hpp"
#include "os/machine/capture_processors.hpp"
#include "os/process/child_call.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

// What `command` prints, without its last line end.
std::string output_of(const std::string& command) {
  std::string output;
  FILE* const pipe = ::popen(command.c_str(), "re");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t got = 1; got > 0;) {
    got = ::fread(buffer, 1, sizeof buffer, pipe);
    output.append(buffer, got);
  }
  REQUIRE(::pclose(pipe) == 0);
  if (output.ends_with('\n')) output.pop_back();
  return output;
}

// In a child: the function's answer, so that its changes to the process stay there.
std::string in_child(const std::function<std::string()>& function) {
  const ChildAnswer answer = call_in_child(function, Milliseconds{20000});
  INFO(answer.problem);
  REQUIRE(answer.bytes);
  return *answer.bytes;
}

}  // namespace

TEST_CASE("a capture agrees with the machine") {
  const char* const words[] = {"ddprun", "--dry-run", "train.py", nullptr};
  const facts::Snapshot snapshot = capture_snapshot(3, words);
  CHECK(snapshot.arguments == std::vector<std::string>{"--dry-run", "train.py"});
  CHECK(snapshot.working_directory == std::filesystem::current_path().string());
  CHECK(facts::find_variable(snapshot, "PATH") == std::string(::getenv("PATH")));
  CHECK(snapshot.unix_time > 1600000000);
  CHECK(snapshot.host.name == output_of("uname -n"));
  CHECK(snapshot.host.uid == ::geteuid());
  CHECK(snapshot.host.pid == ::getpid());
  CHECK(std::to_string(snapshot.host.allowed_cpus.size()) == output_of("nproc"));
  CHECK(std::to_string(snapshot.host.online_cpus) == output_of("getconf _NPROCESSORS_ONLN"));
  CHECK(snapshot.host.allowed_cores >= 1);
  CHECK(snapshot.host.allowed_cores <= static_cast<int>(snapshot.host.allowed_cpus.size()));
  CHECK(facts::render_cpu_list(snapshot.host.allowed_memory_nodes) ==
        output_of("sed -n 's/Mems_allowed_list:\t//p' /proc/self/status"));
  CHECK(snapshot.host.cgroup == output_of("cat /proc/self/cgroup") + "\n");
  CHECK(snapshot.host.ephemeral_ports.first <= snapshot.host.ephemeral_ports.second);
  CHECK(snapshot.programs.contains("python3"));
  CHECK(facts::parse_snapshot(facts::render_snapshot(snapshot), "captured") == snapshot);
}

TEST_CASE("the affinity mask is the one taskset sees") {
  const std::vector<int> allowed = capture_allowed_cpus();
  REQUIRE_FALSE(allowed.empty());
  const std::string first = std::to_string(allowed.back());
  const std::string answer = in_child([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(allowed.back()), &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) return std::string("cannot set the mask");
    return facts::render_cpu_list(capture_allowed_cpus()) + output_of("taskset -cp $$ | sed 's/.*://'");
  });
  CHECK(answer == first + " " + first);
}

TEST_CASE("the ancestors start with our parent and end with the first process") {
  const std::vector<facts::Ancestor> ancestors = capture_ancestors();
  REQUIRE_FALSE(ancestors.empty());
  CHECK(ancestors.front().pid == ::getppid());
  CHECK(ancestors.front().title ==
        output_of("tr '\\0' ' ' < /proc/" + std::to_string(::getppid()) + "/cmdline | sed 's/ *$//'"));
  const std::string child_view = in_child([] { return std::to_string(capture_ancestors().front().pid); });
  CHECK(child_view == std::to_string(::getpid()));
}

TEST_CASE("loopback is among the addresses") {
  const std::vector<facts::InterfaceAddress> addresses = capture_addresses();
  const facts::InterfaceAddress loopback{"lo", "127.0.0.1", 8, true};
  CHECK(std::find(addresses.begin(), addresses.end(), loopback) != addresses.end());
}

TEST_CASE("a network namespace of its own has no address until loopback is up") {
  const std::string answer = in_child([] {
    if (::unshare(CLONE_NEWNET) != 0) return std::string("not permitted");
    std::string names;
    for (const facts::InterfaceAddress& address : capture_addresses()) names += address.interface + " ";
    return names + ".";
  });
  if (answer == "not permitted") {
    WARN("not checked: this user may not make network namespaces");
    return;
  }
  CHECK(answer == ".");
}

TEST_CASE("two hardware threads are one core") {
  const FakeRoot root;
  const std::string cpu = "/sys/devices/system/cpu/";
  root.add(cpu + "online", "0-7\n");
  for (const int thread : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const int core = thread % 4;
    root.add(cpu + "cpu" + std::to_string(thread) + "/topology/thread_siblings_list",
             std::to_string(core) + "," + std::to_string(core + 4) + "\n");
  }
  CHECK(capture_online_cpus(root.path()) == 8);
  CHECK(capture_core_count({0, 1, 4, 5, 7}, root.path()) == 3);
  root.add(cpu + "smt/active", "1\n");
  CHECK(capture_core_count({0, 1, 2, 3, 4, 5, 6, 7}, root.path()) == 4);
  root.add(cpu + "smt/active", "0\n");
  CHECK(capture_core_count({0, 1, 4}, root.path()) == 3);
}

TEST_CASE("a core is made of those of its siblings that may be used") {
  const FakeRoot root;
  const std::string cpu = "/sys/devices/system/cpu/cpu";
  for (const int thread : {0, 4})
    root.add(cpu + std::to_string(thread) + "/topology/thread_siblings_list", "0,4\n");
  root.add(cpu + "5/topology/thread_siblings_list", "1,5\n");
  CHECK(capture_cores({0, 4, 5, 6}, root.path()) == std::vector<std::vector<int>>{{0, 4}, {5}, {6}});
}

TEST_CASE("a machine without sysfs has as many cores as CPUs") {
  const FakeRoot root;
  CHECK(capture_core_count({0, 1, 2}, root.path()) == 3);
  CHECK(capture_online_cpus(root.path()) >= 1);
}

TEST_CASE("the tightest quota on the way up counts") {
  const FakeRoot root;
  root.add("/sys/fs/cgroup/a/cpu.max", "400000 100000\n");
  root.add("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  CHECK(capture_cpu_quota({"/a/b/gone", std::nullopt, ""}, root.path()) == 4.0);
  root.add("/sys/fs/cgroup/a/b/gone/cpu.max", "250000 100000\n");
  CHECK(capture_cpu_quota({"/a/b/gone", std::nullopt, ""}, root.path()) == 2.5);
  CHECK_FALSE(capture_cpu_quota({"/", std::nullopt, ""}, root.path()));
  CHECK_FALSE(capture_cpu_quota({"/../a", std::nullopt, ""}, root.path()));
  root.add("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  root.add("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  CHECK(capture_cpu_quota({"/a", "/job/step_0", "cpu,cpuacct"}, root.path()) == 1.5);
  CHECK_FALSE(capture_cpu_quota({}, root.path()));
}

TEST_CASE("NVIDIA GPUs are the device files we may open, in PCI order") {
  const FakeRoot root;
  for (const char* name : {"nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm"}) {
    root.add(std::string("/dev/") + name);
  }
  const std::string folder = "/proc/driver/nvidia/gpus/";
  root.add(folder + "0000:c1:00.0/information", "GPU UUID: \t GPU-1\nDevice Minor: \t 0\n");
  root.add("/sys/bus/pci/devices/0000:c1:00.0/numa_node", "1\n");
  root.add("/sys/bus/pci/devices/0000:c1:00.0/local_cpulist", "8-15,24-31\n");
  root.add(folder + "0000:41:00.0/information", "Device Minor: \t 1\n");
  root.add(folder + "0000:81:00.0/information", "Device Minor: \t 2\nGPU Excluded:\t Yes\n");
  root.add(folder + "0000:91:00.0/information", "Device Minor: \t 9\n");
  CHECK(capture_gpus(root.path()) ==
        std::vector<facts::Gpu>{{"nvidia", "0000:41:00.0"},
                                {"nvidia", "0000:c1:00.0", "GPU-1", *facts::parse_cpu_list("8-15,24-31"), {}},
                                {"nvidia", ""}});
}

TEST_CASE("AMD GPUs are the KFD nodes with SIMDs whose render node we may open") {
  const FakeRoot root;
  const std::string folder = "/sys/class/kfd/kfd/topology/nodes/";
  root.add(folder + "0/properties", "simd_count 0\n");
  root.add(folder + "10/properties",
           "simd_count 440\nlocation_id 512\ndomain 0\ndrm_render_minor 129\nunique_id 255\n");
  root.add(folder + "2/properties", "simd_count 440\nlocation_id 256\ndomain 0\ndrm_render_minor 128\n");
  root.add(folder + "3/properties", "simd_count 440\nlocation_id 768\ndomain 0\ndrm_render_minor 130\n");
  root.add(folder + "4/properties", "");
  root.add("/dev/dri/renderD128");
  root.add("/dev/dri/renderD129");
  CHECK(capture_gpus(root.path()).empty());
  root.add("/dev/kfd");
  CHECK(capture_gpus(root.path()) ==
        std::vector<facts::Gpu>{{"amd", "0000:01:00.0"},
                                {"amd", "0000:02:00.0", "GPU-00000000000000ff", {}, {}}});
}

TEST_CASE("Intel GPUs are data-centre cards, one entry a tile") {
  const FakeRoot root;
  const std::string pci = "/sys/devices/pci0000:00/";
  root.add(pci + "0000:00:02.0/vendor", "0x8086\n");
  root.add(pci + "0000:00:02.0/device", "0x9a49\n");
  root.add(pci + "0000:00:02.0/drm/renderD128/dev");
  root.add(pci + "0000:18:00.0/vendor", "0x8086\n");
  root.add(pci + "0000:18:00.0/device", "0x0bd6\n");
  root.add(pci + "0000:18:00.0/tile0/x");
  root.add(pci + "0000:18:00.0/tile1/x");
  root.add(pci + "0000:18:00.0/drm/renderD129/dev");
  root.link("/sys/class/drm/card0/device", "/sys/devices/pci0000:00/0000:00:02.0");
  root.link("/sys/class/drm/card1/device", "/sys/devices/pci0000:00/0000:18:00.0");
  root.add("/sys/class/drm/card1-HDMI-A-1/status");
  root.add("/dev/dri/renderD128");
  root.add("/dev/dri/renderD129");
  CHECK(capture_gpus(root.path()) ==
        std::vector<facts::Gpu>{{"intel", "0000:18:00.0"}, {"intel", "0000:18:00.0"}});
}

TEST_CASE("a machine without GPUs has none") { CHECK(capture_gpus(FakeRoot().path()).empty()); }

TEST_CASE("the node files of PBS and LSF are taken along") {
  const FakeRoot root;
  root.add("/nodes", "n1\nn1\n");
  for (const char* variable : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"}) {
    CAPTURE(variable);
    CHECK(in_child([&] {
            ::setenv(variable, (root.path() + "/nodes").c_str(), 1);
            const char* const words[] = {"ddprun", nullptr};
            const facts::Snapshot snapshot = capture_snapshot(1, words);
            const auto file = snapshot.files.find(root.path() + "/nodes");
            return file == snapshot.files.end() ? std::string("absent") : file->second;
          }) == "n1\nn1\n");
  }
}

TEST_CASE("the host file the environment names is taken along, unless it is unreasonable") {
  const FakeRoot root;
  root.add("/hosts", "n1\nn2\n");
  root.add("/huge", std::string((1 << 20) + 1, 'x'));
  REQUIRE(::mkfifo((root.path() + "/fifo").c_str(), 0600) == 0);
  const auto captured = [&](const std::string& name) {
    return in_child([&] {
      ::setenv("SLURM_HOSTFILE", (root.path() + name).c_str(), 1);
      const char* const words[] = {"ddprun", nullptr};
      const facts::Snapshot snapshot = capture_snapshot(1, words);
      const auto file = snapshot.files.find(root.path() + name);
      return file == snapshot.files.end() ? std::string("absent") : file->second;
    });
  };
  CHECK(captured("/hosts") == "n1\nn2\n");
  for (const char* name : {"/huge", "/fifo", "/missing", ""}) {
    CAPTURE(name);
    CHECK(captured(name) == "absent");
  }
}

TEST_CASE("descriptions of sites are read whole, and what cannot be read is there and empty") {
  FakeRoot root;
  root.add("/user/b.json", "b");
  root.add("/user/a.json", "a");
  root.add("/user/a.txt", "no description");
  root.add("/user/folder.json/x", "a folder");
  root.add("/etc/long.json", std::string(facts::k_site_file_limit + 1, ' '));
  const auto files = capture_site_files({root.path() + "/user", root.path() + "/none", root.path() + "/etc"});
  CHECK(files == std::map<std::string, std::string>{{root.path() + "/user/a.json", "a"},
                                                    {root.path() + "/user/b.json", "b"},
                                                    {root.path() + "/user/folder.json", ""},
                                                    {root.path() + "/etc/long.json", ""}});
}

TEST_CASE("a folder full of descriptions is read up to a limit") {
  FakeRoot root;
  for (std::size_t i = 0; i < facts::k_site_files_limit + 5; ++i) {
    root.add("/" + std::to_string(1000 + i) + ".json");
  }
  const auto files = capture_site_files({root.path()});
  CHECK(files.size() == facts::k_site_files_limit);
  CHECK(files.begin()->first == root.path() + "/1000.json");
}
