#include "plan/gpu_count.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

std::string address(int number) { return "0000:0" + std::to_string(number) + ":00.0"; }

std::vector<facts::Gpu> host_with(int gpus) {
  std::vector<facts::Gpu> list;
  for (int i = 0; i < gpus; ++i) list.push_back({"nvidia", address(i), "GPU-" + std::to_string(i)});
  return list;
}

LocalPeer task(int local_rank, const std::string& device, const std::vector<std::string>& addresses) {
  return {LocalRank{local_rank}, false, {{device, addresses}}};
}

using Entries = std::vector<std::string>;

}  // namespace

TEST_CASE("tasks that can open each other's GPUs share them, in the order of local ranks") {
  CHECK(find_shared_devices(host_with(4), {task(0, "3", {address(3)}), task(1, "1", {address(1)})}) ==
        Entries{"3", "1"});
  CHECK(find_shared_devices(host_with(2), {task(0, "GPU-1", {address(1)}), task(1, "GPU-0", {address(0)})}) ==
        Entries{"GPU-1", "GPU-0"});
}

TEST_CASE("GPUs that not all tasks can open are not shared") {
  // Device cgroups: everybody's GPU is number 0, and only one's own is there.
  CHECK(
      find_shared_devices({{"nvidia", address(1)}}, {task(0, "0", {address(0)}), task(1, "0", {address(1)})})
          .empty());
  CHECK(find_shared_devices({{"nvidia", address(1), "GPU-1"}},
                            {task(0, "GPU-0", {address(0)}), task(1, "GPU-1", {address(1)})})
            .empty());
  // The same number means another GPU there.
  CHECK(find_shared_devices(host_with(2), {task(0, "0", {address(0)}), task(1, "1", {address(3)})}).empty());
}

TEST_CASE("GPUs that are not told apart for certain are not shared") {
  const std::vector<facts::Gpu> host = host_with(2);
  const LocalPeer first = task(0, "0", {address(0)});
  CHECK(find_shared_devices(host, {}).empty());
  CHECK(find_shared_devices(host, {first}).empty());
  CHECK(find_shared_devices({}, {first, task(1, "1", {address(1)})}).empty());
  CHECK(find_shared_devices(host, {first, task(1, "0", {address(0)})}).empty());      // one GPU for two
  CHECK(find_shared_devices(host, {first, task(1, "GPU-0", {address(0)})}).empty());  // by two names
  CHECK(find_shared_devices(host, {first, task(1, "1", {})}).empty());
  CHECK(find_shared_devices(host, {first, task(1, "0,1", {address(0), address(1)})}).empty());
  CHECK(find_shared_devices(host, {first, task(2, "1", {address(1)})}).empty());  // who has rank 1?
  CHECK(find_shared_devices(host, {first, {LocalRank{1}, false, {}}}).empty());
  std::vector<facts::Gpu> nameless = host;
  for (facts::Gpu& gpu : nameless) gpu.pci_address.clear();
  CHECK(find_shared_devices(nameless, {task(0, "0", {""}), task(1, "1", {""})}).empty());
  std::vector<facts::Gpu> cut = host;
  cut[1].mig = {"MIG-1"};
  CHECK(find_shared_devices(cut, {first, task(1, "MIG-1", {address(1)})}).empty());
}

TEST_CASE("a list that the runtime would read otherwise is not made") {
  const std::vector<facts::Gpu> host = host_with(2);
  CHECK(find_shared_devices(host, {task(0, "0", {address(0)}), task(1, "GPU-1", {address(1)})}).empty());
  std::vector<facts::Gpu> intel = host;
  for (facts::Gpu& gpu : intel) gpu.vendor = "intel";
  CHECK(find_shared_devices(intel, {task(0, "0", {address(0)}), task(1, "1", {address(1)})}) ==
        Entries{"0", "1"});
  CHECK(find_shared_devices(intel, {task(0, "1", {address(1)}), task(1, "0", {address(0)})}).empty());
}
