#include "inspection/nvml_health.hpp"

#include <stdlib.h>

#include "catch.hpp"
#include "check/record_fields.hpp"
#include "os/process/child_call.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

// In a child, for the sake of its environment.
std::vector<check::GpuHealth> ask(const std::string& kind) {
  const ChildAnswer answer = call_in_child(
      [&] {
        ::setenv("FAKE_NVML", kind.c_str(), 1);
        return inspection::ask_nvml_health(DDPRUN_FAKE_NVML);
      },
      Milliseconds{20000});
  INFO(answer.problem);
  REQUIRE(answer.bytes);
  return check::parse_json_text<std::vector<check::GpuHealth>>(*answer.bytes);
}

}  // namespace

TEST_CASE("healthy GPUs show nothing") {
  const std::vector<check::GpuHealth> gpus = ask("");
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[0].address == "0000:c1:00.0");
  CHECK(gpus[0].model == "NVIDIA Fake 40 GB");
  CHECK(gpus[0].memory == std::uint64_t{80} << 30);
  CHECK(gpus[0].used == std::uint64_t{1} << 29);
  CHECK(gpus[0].nvlinks == 4);
  CHECK(gpus[0].link_width == gpus[0].full_link_width);
  for (const check::GpuHealth& gpu : gpus) {
    CHECK((gpu.uncorrected == 0 && gpu.processes == 0 && gpu.nvlinks_down == 0));
    CHECK((gpu.slowed.empty() && !gpu.rows_pending && !gpu.rows_failed));
  }
}

TEST_CASE("a sick GPU shows what it has") {
  const check::GpuHealth gpu = ask("sick").at(1);
  CHECK(gpu.address == "0000:41:00.0");
  CHECK(gpu.uncorrected == 4);
  CHECK(gpu.processes == 3);
  CHECK((gpu.rows_pending && gpu.rows_failed));
  CHECK(gpu.slowed == std::vector<std::string>{"hardware thermal slowdown"});
  CHECK(gpu.link_width == 8);
  CHECK(gpu.full_link_width == 16);
  CHECK(gpu.nvlinks == 3);
  CHECK(gpu.nvlinks_down == 1);
}

TEST_CASE("what an old driver cannot tell is left as it is") {
  const std::vector<check::GpuHealth> gpus = ask("old");
  REQUIRE(gpus.size() == 2);
  CHECK((gpus[0].memory == 0 && gpus[0].uncorrected == 0 && gpus[0].nvlinks == 0));
}

TEST_CASE("without a driver there is no answer") {
  CHECK(inspection::ask_nvml_health("/nowhere/libnvidia-ml.so.1").empty());
}
