#include "inspection/nvml_health.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include "catch.hpp"
#include "check/record_fields.hpp"
#include "fake_root.hpp"
#include "os/libraries/nvml.hpp"
#include "os/process/child_call.hpp"
#include "os/process/process_table.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

// In a child, for the sake of its environment.
std::vector<check::GpuMemory> capture(const std::string& process) {
  const FakeRoot root;
  root.add("/dev/nvidiactl");
  const ChildAnswer answer = call_in_child(
      [&] {
        ::setenv("FAKE_NVML", "", 1);
        if (!process.empty()) ::setenv("FAKE_NVML_PROCESS", process.c_str(), 1);
        return check::render_json_text(inspection::capture_gpu_memory(DDPRUN_FAKE_NVML, root.path()));
      },
      Milliseconds{20000});
  INFO(answer.problem);
  REQUIRE(answer.bytes);
  return check::parse_json_text<std::vector<check::GpuMemory>>(*answer.bytes);
}

}  // namespace

TEST_CASE("GPUs show the processes that hold their memory, with name and user") {
  const std::vector<check::GpuMemory> gpus = capture(fmt::format("{} 1000000", ::getpid()));
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[0].address == "0000:c1:00.0");
  CHECK(gpus[0].used == std::uint64_t{1} << 29);
  CHECK(gpus[0].holders.empty());
  CHECK(gpus[1].address == "0000:41:00.0");
  REQUIRE(gpus[1].holders.size() == 1);
  const check::GpuHolder& holder = gpus[1].holders.front();
  CHECK(holder.pid == ::getpid());
  CHECK(holder.memory == 1000000);
  CHECK(holder.name == capture_process(::getpid())->name);
  CHECK_FALSE(holder.user.empty());
  if (::getuid() == 0) CHECK(holder.user == "root");
}

TEST_CASE("a process that is not there, or whose memory is not known, is told by its number alone") {
  const std::vector<check::GpuMemory> gpus = capture("4194304");  // above the kernel's largest
  REQUIRE(gpus.size() == 2);
  REQUIRE(gpus[1].holders.size() == 1);
  const check::GpuHolder& holder = gpus[1].holders.front();
  CHECK(holder.pid == 4194304);
  CHECK(holder.memory == -1);
  CHECK((holder.name.empty() && holder.user.empty()));
}

TEST_CASE("GPUs without processes have none, and no driver is asked where none shows itself") {
  CHECK(capture("").at(1).holders.empty());
  const FakeRoot root;
  CHECK(inspection::capture_gpu_memory(DDPRUN_FAKE_NVML, root.path()).empty());
}
