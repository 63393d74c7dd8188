#include "placement/devices.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::placement;

namespace {

facts::Snapshot with(facts::Environment environment, std::vector<facts::Gpu> gpus = {}) {
  facts::Snapshot snapshot;
  snapshot.environment = std::move(environment);
  snapshot.host.gpus = std::move(gpus);
  return snapshot;
}

std::vector<facts::Gpu> alike(int count, const std::string& vendor = "nvidia") {
  return std::vector<facts::Gpu>(static_cast<std::size_t>(count), facts::Gpu{vendor, ""});
}

std::vector<facts::Gpu> with_uuids(const std::vector<std::string>& uuids,
                                   const std::string& vendor = "nvidia") {
  std::vector<facts::Gpu> gpus;
  for (const std::string& uuid : uuids) gpus.push_back({vendor, "", uuid});
  return gpus;
}

// Two tiles on each card, as HostFacts has them.
std::vector<facts::Gpu> cards(int count) {
  std::vector<facts::Gpu> gpus;
  for (int i = 0; i < 2 * count; ++i) {
    gpus.push_back({"intel", "0000:" + std::to_string(10 + i / 2) + ":00.0"});
  }
  return gpus;
}

using Entries = std::vector<std::string>;
using Indices = std::vector<std::optional<int>>;

Entries cuda(const std::string& list, std::vector<facts::Gpu> gpus = {}) {
  return find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", list}}, std::move(gpus))).entries;
}

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

TEST_CASE("a device list is of its first entry's form, and a repeated entry empties it") {
  CHECK(parse_device_list("0,GPU-aaaa,1") == Entries{"0"});
  CHECK(parse_device_list("GPU-aaaa,1") == Entries{"GPU-aaaa"});
  CHECK(parse_device_list("MIG-aaaa,GPU-bbbb") == Entries{"MIG-aaaa"});
  CHECK(parse_device_list("0,1,0").empty());
  CHECK(parse_device_list("GPU-aaaa,GPU-aaaa").empty());
  CHECK(parse_device_list("0,1,x,0") == Entries{"0", "1"});
}

TEST_CASE("the visibility variable wins over the step's and the machine's devices") {
  const VisibleDevices listed =
      find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", "2,3"}, {"SLURM_STEP_GPUS", "0,1,2"}}, alike(4)));
  CHECK(listed.entries == Entries{"2", "3"});
  CHECK(listed.gpus == Indices{2, 3});
  const VisibleDevices machine = find_visible_devices(with({}, alike(2)));
  CHECK(machine.entries == Entries{"0", "1"});
  CHECK(machine.gpus == Indices{0, 1});
  CHECK(machine.origin == "2 GPUs of this host");
  CHECK(machine.variable.empty());
  CHECK(machine.narrowing == "CUDA_VISIBLE_DEVICES");
  CHECK(find_visible_devices(with({})).entries.empty());
}

TEST_CASE("an empty visibility variable hides all devices") {
  const VisibleDevices devices = find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", ""}}, alike(4)));
  CHECK(devices.entries.empty());
  CHECK(devices.origin == "CUDA_VISIBLE_DEVICES");
}

TEST_CASE("an index past the GPUs ends the list where their number is certain") {
  CHECK(cuda("0,4,1", alike(4)) == Entries{"0"});
  CHECK(cuda("4", alike(4)).empty());
  CHECK(cuda("99999999999999999999", alike(4)).empty());
  const VisibleDevices unseen = find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", "0,4"}}));
  CHECK(unseen.entries == Entries{"0", "4"});
  CHECK(unseen.gpus == Indices{std::nullopt, std::nullopt});
  facts::Snapshot doubtful = with({{"CUDA_VISIBLE_DEVICES", "0,4"}}, alike(1));
  doubtful.host.warnings = {"NVML gave no answer within 2 s"};
  CHECK(find_visible_devices(doubtful).gpus == Indices{0, std::nullopt});
}

TEST_CASE("a UUID may be cut short as long as one GPU begins with it") {
  const std::vector<facts::Gpu> gpus = with_uuids({"GPU-8a11", "GPU-8b22", "GPU-9c33"});
  const VisibleDevices devices =
      find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", "GPU-9,GPU-8a11"}}, gpus));
  CHECK(devices.entries == Entries{"GPU-9", "GPU-8a11"});
  CHECK(devices.gpus == Indices{2, 0});
  CHECK(cuda("GPU-8,GPU-9", gpus).empty());                                // two begin with the first
  CHECK(cuda("GPU-9,GPU-7,GPU-8a", gpus) == Entries{"GPU-9"});             // none begins with the second
  CHECK(cuda("GPU-7", with_uuids({"GPU-8a11", ""})) == Entries{"GPU-7"});  // it may be the other one
}

TEST_CASE("GPUs in MIG mode are there as their instances, one of them a process") {
  std::vector<facts::Gpu> gpus = with_uuids({"GPU-aa", "GPU-bb"});
  gpus[0].mig = {"MIG-1", "MIG-2"};
  gpus[1].mig = {"MIG-3"};
  const VisibleDevices all = find_visible_devices(with({}, gpus));
  CHECK(all.entries == Entries{"MIG-1", "MIG-2", "MIG-3"});
  CHECK(all.gpus == Indices{0, 0, 1});
  CHECK(all.one_a_process);
  CHECK(all.origin == "3 MIG instances of this host");
  CHECK(find_visible_devices(with({{"SLURM_STEP_GPUS", "5"}}, gpus)).entries == all.entries);
  CHECK(cuda("0", gpus) == Entries{"MIG-1", "MIG-2"});
  CHECK(cuda("MIG-3,MIG-1", gpus) == Entries{"MIG-3", "MIG-1"});
  CHECK(cuda("MIG-3,MIG-9,MIG-1", gpus) == Entries{"MIG-3"});
  CHECK(find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", "MIG-GPU-bb/1/0"}}, gpus)).gpus == Indices{1});
}

TEST_CASE("CUDA does not look at whole GPUs beside an instance") {
  std::vector<facts::Gpu> gpus = with_uuids({"GPU-aa", "GPU-bb"});
  gpus[1].mig = {"MIG-1"};
  CHECK(find_visible_devices(with({}, gpus)).entries == Entries{"MIG-1"});
  const VisibleDevices whole = find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", "0"}}, gpus));
  CHECK(whole.entries == Entries{"0"});
  CHECK_FALSE(whole.one_a_process);
}

TEST_CASE("the vendor of the GPUs decides which variable counts") {
  const facts::Environment slurm{
      {"CUDA_VISIBLE_DEVICES", "0,1"}, {"ROCR_VISIBLE_DEVICES", "0,1"}, {"ZE_AFFINITY_MASK", "0,1"}};
  CHECK(find_visible_devices(with(slurm, alike(4, "nvidia"))).variable == "CUDA_VISIBLE_DEVICES");
  CHECK(find_visible_devices(with(slurm, alike(4, "intel"))).variable == "ZE_AFFINITY_MASK");
  CHECK(find_visible_devices(with(slurm)).variable == "CUDA_VISIBLE_DEVICES");
  const VisibleDevices amd = find_visible_devices(with(slurm, alike(4, "amd")));
  CHECK(amd.entries == Entries{"0", "1"});
  CHECK(amd.origin == "CUDA_VISIBLE_DEVICES within ROCR_VISIBLE_DEVICES");
  // A processor's own graphics beside the GPUs.
  const std::vector<facts::Gpu> mixed{{"intel", ""}, {"nvidia", ""}};
  const VisibleDevices beside = find_visible_devices(with({}, mixed));
  CHECK(beside.entries == Entries{"0"});
  CHECK(beside.gpus == Indices{1});
}

TEST_CASE("HIP counts within what ROCR leaves") {
  const VisibleDevices both = find_visible_devices(
      with({{"ROCR_VISIBLE_DEVICES", "4,5,6"}, {"HIP_VISIBLE_DEVICES", "2,0"}}, alike(8, "amd")));
  CHECK(both.entries == Entries{"2", "0"});
  CHECK(both.gpus == Indices{6, 4});
  CHECK(both.narrowing == "HIP_VISIBLE_DEVICES");
  const VisibleDevices first = find_visible_devices(with({{"ROCR_VISIBLE_DEVICES", "4,5,6"}}));
  CHECK(first.entries == Entries{"4", "5", "6"});
  CHECK(first.narrowing == "ROCR_VISIBLE_DEVICES");
  // The same global numbers in both leave nothing.
  const auto twice = [](const char* name) {
    return find_visible_devices(with({{"ROCR_VISIBLE_DEVICES", "4,5"}, {name, "4,5"}}, alike(8, "amd")));
  };
  CHECK(twice("HIP_VISIBLE_DEVICES").entries.empty());
  CHECK(twice("CUDA_VISIBLE_DEVICES").entries.empty());
}

TEST_CASE("where no GPU shows whose they are, HIP's variable goes before CUDA's") {
  const VisibleDevices both =
      find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", "4,5,6,7"}, {"HIP_VISIBLE_DEVICES", "4,5,6,7"}}));
  CHECK(both.narrowing == "HIP_VISIBLE_DEVICES");
  CHECK(both.entries == Entries{"4", "5", "6", "7"});
  // Slurm sets all variables but HIP's, whatever the GPUs are.
  CHECK(
      find_visible_devices(with({{"CUDA_VISIBLE_DEVICES", "0"}, {"ROCR_VISIBLE_DEVICES", "0"}})).narrowing ==
      "CUDA_VISIBLE_DEVICES");
}

TEST_CASE("ROCm's lists take UUIDs, a repeated entry once, and an empty one of HIP for none") {
  const std::vector<facts::Gpu> gpus = with_uuids({"GPU-aa", "GPU-bb"}, "amd");
  CHECK(find_visible_devices(with({{"ROCR_VISIBLE_DEVICES", "GPU-bb"}}, gpus)).gpus == Indices{1});
  CHECK(find_visible_devices(with({{"HIP_VISIBLE_DEVICES", "1,1,0"}}, gpus)).gpus == Indices{1, 0});
  CHECK(find_visible_devices(with({{"HIP_VISIBLE_DEVICES", ""}, {"CUDA_VISIBLE_DEVICES", "1"}}, gpus))
            .entries == Entries{"1"});
  CHECK(find_visible_devices(with({{"ROCR_VISIBLE_DEVICES", ""}}, gpus)).entries.empty());
}

TEST_CASE("Intel's tiles are devices, in their own order") {
  CHECK(find_visible_devices(with({}, cards(2))).entries == Entries{"0", "1", "2", "3"});
  const VisibleDevices devices = find_visible_devices(with({{"ZE_AFFINITY_MASK", "3,9,1,3,0.1"}}, cards(2)));
  CHECK(devices.entries == Entries{"1", "3"});
  CHECK(devices.gpus == Indices{1, 3});
  CHECK(find_visible_devices(with({{"ZE_AFFINITY_MASK", ""}}, cards(1))).entries == Entries{"0", "1"});
}

TEST_CASE("Intel's cards are devices where that is asked for") {
  const auto composite = [](facts::Environment environment) {
    environment["ZE_FLAT_DEVICE_HIERARCHY"] = "COMPOSITE";
    return find_visible_devices(with(std::move(environment), cards(3)));
  };
  CHECK(composite({}).entries == Entries{"0", "1", "2"});
  CHECK(composite({}).gpus == Indices{0, 2, 4});
  CHECK(composite({{"ZE_AFFINITY_MASK", "2,1"}}).gpus == Indices{2, 4});
  const VisibleDevices tiles = composite({{"ZE_AFFINITY_MASK", "1.1,0.0,0.1"}});
  CHECK(tiles.entries == Entries{"0.0,0.1", "1.1"});  // two tiles of a card are one device
  CHECK(tiles.gpus == Indices{0, 3});
  CHECK(composite({{"ZE_AFFINITY_MASK", "1.7"}}).gpus == Indices{std::nullopt});
}

TEST_CASE("unlike GPUs by number are noticed, unless CUDA counts by address too") {
  std::vector<facts::Gpu> gpus = alike(2);
  gpus[0].model = "NVIDIA T400";
  gpus[1].model = "NVIDIA A100-SXM4-40GB";
  const auto notice = [](const facts::Snapshot& snapshot) {
    const auto found = find_unsure_order(snapshot, find_visible_devices(snapshot), "n1");
    return found ? found->what + " | " + found->hint : "";
  };
  const std::string unlike =
      "n1 has unlike GPUs (NVIDIA A100-SXM4-40GB, NVIDIA T400): CUDA numbers the fastest first, ddprun the "
      "one with the lowest PCI address | export CUDA_DEVICE_ORDER=PCI_BUS_ID, so that both number them alike";
  CHECK(notice(with({}, gpus)) == unlike);
  CHECK(notice(with({{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}, gpus)) == unlike);
  CHECK(notice(with({{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}, gpus)).empty());
  CHECK(notice(with({{"CUDA_VISIBLE_DEVICES", "GPU-1"}}, gpus)).empty());
  gpus[1].model = gpus[0].model;
  CHECK(notice(with({}, gpus)).empty());
}

TEST_CASE("the step's numbers are indices only where the whole host is seen") {
  const auto step = [](const std::string& numbers, int gpus) {
    return find_visible_devices(with({{"SLURM_STEP_GPUS", numbers}}, alike(gpus)));
  };
  CHECK(step("2,3", 4).entries == Entries{"2", "3"});
  CHECK(step("2,3", 4).gpus == Indices{2, 3});
  CHECK(step("2,3", 2).entries == Entries{"0", "1"});  // a device cgroup
  CHECK(step("2,3", 2).gpus == Indices{0, 1});
  CHECK(step("2,3", 0).entries == Entries{"2", "3"});
  CHECK(step("2,3", 0).gpus == Indices{std::nullopt, std::nullopt});
  CHECK(step("2,3", 2).origin == "SLURM_STEP_GPUS");
}

TEST_CASE("GPUs that a variable names or Slurm granted and that are not there are told") {
  const auto missing = [](facts::Environment environment, std::vector<facts::Gpu> gpus) {
    return find_visible_devices(with(std::move(environment), std::move(gpus))).missing;
  };
  CHECK(missing({{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}}, alike(3)) ==
        "CUDA_VISIBLE_DEVICES names 4 GPUs, 3 are visible");
  CHECK(missing({{"CUDA_VISIBLE_DEVICES", "GPU-b"}}, with_uuids({"GPU-a"})) ==
        "CUDA_VISIBLE_DEVICES names 1 GPU, none is visible");
  CHECK(missing({{"SLURM_GPUS_ON_NODE", "4"}}, alike(1)) == "SLURM_GPUS_ON_NODE is 4, 1 is visible");
  CHECK(missing({{"SLURM_GPUS_ON_NODE", "4"}}, {}) == "SLURM_GPUS_ON_NODE is 4, none is visible");
  CHECK(missing({{"HIP_VISIBLE_DEVICES", "0,1,1"}}, alike(1, "amd")) ==
        "HIP_VISIBLE_DEVICES names 2 GPUs, 1 is visible");
  CHECK(missing({{"CUDA_VISIBLE_DEVICES", "0,1"}}, {}) ==
        "CUDA_VISIBLE_DEVICES names 2 GPUs, none is visible");
  CHECK(missing({{"ZE_AFFINITY_MASK", "0,3"}}, cards(1)) == "ZE_AFFINITY_MASK names 2 GPUs, 1 is visible");
}

TEST_CASE("fewer GPUs than are there are a choice, as none are") {
  const auto missing = [](facts::Environment environment, std::vector<facts::Gpu> gpus) {
    return find_visible_devices(with(std::move(environment), std::move(gpus))).missing;
  };
  CHECK(missing({{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_GPUS_ON_NODE", "4"}}, alike(4)).empty());
  CHECK(missing({{"CUDA_VISIBLE_DEVICES", ""}}, {}).empty());
  CHECK(missing({{"CUDA_VISIBLE_DEVICES", "-1"}}, alike(2)).empty());
  CHECK(missing({{"ZE_AFFINITY_MASK", "0.0,0.1"}}, cards(1)).empty());
  CHECK(missing({{"SLURM_GPUS_ON_NODE", "2"}}, alike(4)).empty());
  std::vector<facts::Gpu> mig = alike(1);
  mig.front().mig = {"MIG-1", "MIG-2"};
  CHECK(missing({{"SLURM_GPUS_ON_NODE", "2"}}, mig).empty());  // Slurm counts instances
}
