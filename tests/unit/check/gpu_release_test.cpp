#include "check/gpu_release.hpp"

#include "catch.hpp"
#include "check/record_fields.hpp"

using namespace ddprun;
using namespace ddprun::check;

namespace {

constexpr std::int64_t k_gibi = std::int64_t{1} << 30;
const std::string k_first = "0000:41:00.0";
const std::string k_second = "0000:c1:00.0";

GpuMemory gpu(const std::string& address, std::int64_t used, std::vector<GpuHolder> holders) {
  return {address, static_cast<std::uint64_t>(used), std::move(holders)};
}

GpuHolder python(int pid, std::int64_t memory) { return {pid, memory, "python", "alice"}; }

HostRecord idle_node(std::uint64_t used = 0) {
  HostRecord record;
  for (const std::string& address : {k_first, k_second}) {
    GpuHealth& health = record.gpus.emplace_back();
    health.address = address;
    health.memory = std::uint64_t{80} << 30;
    health.used = used;
  }
  return record;
}

// Addresses of those that are held, with the numbers of the processes.
std::string held(const std::vector<GpuMemory>& now, const std::vector<int>& own = {},
                 const HostRecord& before = idle_node()) {
  std::string text;
  for (const GpuMemory& each : find_held(now, {k_first, k_second}, own, before)) {
    text += each.address;
    for (const GpuHolder& holder : each.holders) text += " " + std::to_string(holder.pid);
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a GPU is free with half a gibibyte of other processes, and held with more") {
  CHECK(held({}).empty());
  CHECK(held({gpu(k_first, k_gibi / 2, {python(7, k_gibi / 4), python(8, k_gibi / 4)})}).empty());
  CHECK(held({gpu(k_first, k_gibi, {python(7, k_gibi / 2), python(8, 1)})}) == k_first + " 7 8\n");
  CHECK(held({gpu("0000:99:00.0", k_gibi, {python(7, k_gibi)})}).empty());  // no worker's
}

TEST_CASE("standby interpreters may hold memory, and so may what did before the job") {
  const std::vector<GpuMemory> now = {gpu(k_first, 3 * k_gibi, {python(7, 2 * k_gibi), python(8, k_gibi)})};
  CHECK(held(now, {7}) == k_first + " 8\n");
  CHECK(held(now, {7, 8}).empty());
  CHECK(held(now, {}, idle_node(3 * k_gibi)).empty());
}

TEST_CASE("processes that are not visible count, unless they may be our own under another number") {
  const std::vector<GpuMemory> now = {gpu(k_first, k_gibi, {{700, k_gibi, "", ""}})};
  CHECK(held(now) == k_first + " 700\n");
  CHECK(held(now, {7}).empty());
  CHECK(held({gpu(k_first, k_gibi, {})}) == k_first + "\n");
  CHECK(held({gpu(k_first, k_gibi, {})}, {7}).empty());
  CHECK(held({gpu(k_first, k_gibi, {})}, {}, {}).empty());  // an old driver, whose use includes its own
}

TEST_CASE("a process whose memory the driver does not tell counts as all that is used") {
  CHECK(held({gpu(k_first, k_gibi, {python(7, -1)})}) == k_first + " 7\n");
  CHECK(held({gpu(k_first, k_gibi / 4, {python(7, -1)})}).empty());
}

TEST_CASE("the sentence names who holds what") {
  const GpuMemory one = gpu(k_first, 70 * k_gibi, {python(4711, 70 * k_gibi)});
  const Finding finding = describe_held({one}, "n1", Milliseconds{50000});
  CHECK(finding.mark == Mark::error);
  CHECK(finding.subject == "GPU");
  CHECK(finding.hosts == std::vector<std::string>{"n1"});
  CHECK(finding.what ==
        "GPU 0000:41:00.0: 70.0 GiB of its memory still held after 50 s, by process 4711 (python, user "
        "alice)");
  CHECK(finding.fix == "end it there (kill -9); one that stays needs the site to reset the node");

  GpuMemory many = gpu(k_second, 5 * k_gibi, {});
  for (const int pid : {1, 2, 3, 4, 5}) many.holders.push_back(python(pid, k_gibi));
  many.holders.front().name.clear();
  CHECK(describe_held({many, one}, "n1", Milliseconds{1000}).what ==
        "GPU 0000:c1:00.0: 5.0 GiB of its memory still held after 1 s, by process 1, which is not "
        "visible here, process 2 (python, user alice), process 3 (python, user alice), 2 more; 1 GPU more "
        "like it");

  const Finding unseen = describe_held({gpu(k_first, k_gibi, {})}, "n1", Milliseconds{50000});
  CHECK(unseen.what ==
        "GPU 0000:41:00.0: 1.0 GiB of its memory still held after 50 s, by a process that is not "
        "visible here");
  CHECK(describe_held({one}, "n1", Milliseconds{0})
            .what.starts_with(
                "GPU 0000:41:00.0: 70.0 GiB of its memory held by process 4711 (python, user alice)"));
  CHECK(unseen.fix == "see what uses it (nvidia-smi), or have the site reset it");
}
