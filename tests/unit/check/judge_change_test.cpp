#include "catch.hpp"
#include "check/finding.hpp"

using namespace ddprun;
using namespace ddprun::check;

namespace {

HostRecord sound_node() {
  HostRecord record;
  record.host = "n1";
  record.online_cpus = 64;
  record.cards = {{"hsn0", 200000}, {"hsn1", 200000}, {"ib0", 0}, {"idle0", -1}};
  GpuHealth gpu;
  gpu.address = "0000:c1:00.0";
  gpu.link_width = 16;
  gpu.nvlinks = 18;
  record.gpus = {gpu};
  return record;
}

// "GPU: sentence", each finding a line.
std::string judged(const HostRecord& now) {
  std::vector<Finding> findings;
  judge_change(sound_node(), now, findings);
  std::string all;
  for (const Finding& each : findings) {
    CHECK_FALSE(each.fix.empty());
    all += (each.mark == Mark::error ? "error: " : "") + each.subject + ": " + each.what + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("a node that is as it was has nothing wrong") {
  HostRecord now = sound_node();
  CHECK(judged(now).empty());
  now.cards["usb0"] = -1;
  now.cards.erase("idle0");
  now.gpus.front().link_width = 0;  // not known
  now.gpus.front().used = 1 << 30;
  CHECK(judged(now).empty());
}

TEST_CASE("what a node has lost is named") {
  HostRecord now = sound_node();
  now.gpus.front().nvlinks = 17;
  now.gpus.front().link_width = 8;
  now.gpus.front().rows_pending = true;
  now.cards = {{"hsn0", -1}, {"hsn1", 100000}};
  CHECK(judged(now) ==
        "GPU: GPU 0000:c1:00.0: PCIe runs with 8 lanes, 16 before\n"
        "GPU: GPU 0000:c1:00.0: 17 NVLinks are up, 18 before\n"
        "GPU: GPU 0000:c1:00.0: a remapped memory row waits for a reset\n"
        "network: hsn0 has no link any more\n"
        "network: hsn1 runs at 100000 Mbit/s, 200000 before\n"
        "network: ib0 has no link any more\n");
  now = sound_node();
  now.online_cpus = 62;
  CHECK(judged(now) == "CPUs: 62 CPUs are online, 64 before\n");
  now.online_cpus = 65;
  CHECK(judged(now).empty());
  now = sound_node();
  now.gpus.front().address = "0000:42:00.0";
  CHECK(judged(now) == "error: GPU: GPU 0000:c1:00.0: it is not there any more\n");
  now.gpus.clear();  // the driver has not told their health in time
  CHECK(judged(now).empty());
}

TEST_CASE("less memory than the workers had used is too little") {
  constexpr std::uint64_t k_gibi = std::uint64_t{1} << 30;
  CHECK_FALSE(judge_memory("n1", 0, 0));
  CHECK_FALSE(judge_memory("n1", 40 * k_gibi, 40 * k_gibi));
  const auto lack = judge_memory("n1", 40 * k_gibi, 39 * k_gibi);
  REQUIRE(lack);
  CHECK(lack->mark == Mark::warning);
  CHECK(reason_of(*lack) == "memory: 39.0 GiB are free, and the workers had used 40.0 GiB");
}

TEST_CASE("a driver that says itself what is lost has the word") {
  HostRecord now = sound_node();
  now.gpus.clear();
  now.lost_gpus = {"GPU 0: GPU is lost"};
  CHECK(judged(now).empty());
  now.lost_gpus.clear();
  now.gpu_problem = "cannot be loaded";
  CHECK(judged(now).empty());
}

TEST_CASE("what was wrong before the first attempt is no fault of a restart, and what is new is") {
  HostRecord before = sound_node();
  before.lost_gpus = {"GPU 3: GPU is lost"};
  HostRecord now = before;
  CHECK(find_faults(before, now).empty());
  now.lost_gpus = {"GPU 3: GPU is lost", "GPU 5: GPU is lost"};
  now.cards["hsn0"] = -1;
  const std::vector<Finding> faults = find_faults(before, now);
  REQUIRE(faults.size() == 2);
  CHECK(reason_of(faults[0]) == "GPU 5: GPU is lost");
  CHECK(faults[1].mark == Mark::warning);
  CHECK(reason_of(faults[1]).starts_with("network: "));
}
