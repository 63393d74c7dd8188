#include "ddprun/plan/devices.hpp"

#include "catch.hpp"

using namespace ddprun;

namespace {

Snapshot with(Environment environment, int gpus = 0) {
  Snapshot snapshot;
  snapshot.environment = std::move(environment);
  for (int i = 0; i < gpus; ++i) snapshot.host.gpus.push_back({"nvidia", ""});
  return snapshot;
}

using Entries = std::vector<std::string>;

}  // namespace

TEST_CASE("a device list is cut at its first invalid entry") {
  CHECK(parse_device_list("0,1,2") == Entries{"0", "1", "2"});
  CHECK(parse_device_list(" 0 , 3 ") == Entries{"0", "3"});
  CHECK(parse_device_list("0,-1,2") == Entries{"0"});
  CHECK(parse_device_list("GPU-aaaa,GPU-bbbb") == Entries{"GPU-aaaa", "GPU-bbbb"});
  CHECK(parse_device_list("MIG-GPU-aaaa/1/0") == Entries{"MIG-GPU-aaaa/1/0"});
  for (const char* none : {"", "-1", "NoDevFiles", "none", "x,0"}) {
    CAPTURE(none);
    CHECK(parse_device_list(none).empty());
  }
}

TEST_CASE("the visibility variable wins over the step's and the machine's devices") {
  CHECK(find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", "2,3"}, {"SLURM_STEP_GPUS", "0,1,2"}}, 4))
            .entries == Entries{"2", "3"});
  CHECK(find_visible_devices(with({{"SLURM_STEP_GPUS", "0,1"}}, 4)).entries == Entries{"0", "1"});
  const VisibleDevices machine = find_visible_devices(with({}, 2));
  CHECK(machine.entries == Entries{"0", "1"});
  CHECK(machine.origin == "2 GPUs of this host");
  CHECK(find_visible_devices(with({})).entries.empty());
}

TEST_CASE("an empty visibility variable hides all devices") {
  const VisibleDevices devices = find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", ""}}, 4));
  CHECK(devices.entries.empty());
  CHECK(devices.origin == "CUDA_VISIBLE_DEVICES");
}

TEST_CASE("HIP counts within what ROCR leaves") {
  CHECK(find_visible_devices(with({{"ROCR_VISIBLE_DEVICES", "4,5,6"}, {"HIP_VISIBLE_DEVICES", "0,1"}}))
            .entries == Entries{"0", "1"});
  CHECK(find_visible_devices(with({{"ROCR_VISIBLE_DEVICES", "4,5,6"}})).entries == Entries{"4", "5", "6"});
}
