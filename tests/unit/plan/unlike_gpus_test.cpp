#include "plan/launch_nodes.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

Announcement on(const std::string& host, int workers, const std::string& missing = {}) {
  Announcement announcement;
  announcement.host = host;
  announcement.workers = workers;
  announcement.counted = true;
  announcement.missing_gpus = missing;
  return announcement;
}

}  // namespace

TEST_CASE("nodes that start different numbers of workers are named with the world's size") {
  const auto notices = find_unlike_gpus({on("n1", 4), on("n2", 3), on("n3", 4)});
  REQUIRE(notices.size() == 1);
  CHECK(notices.front() ==
        allocation::Notice{
            "the nodes start different numbers of workers: 4 on n[1,3], 3 on n2 (world size 11)",
            "each node starts one worker for each GPU it sees; --nproc-per-node N sets the number"});
}

TEST_CASE("missing GPUs are told once for all nodes that miss the same") {
  const std::string missing = "SLURM_GPUS_ON_NODE is 4, 3 are visible";
  const auto notices = find_unlike_gpus({on("n1", 3), on("n2", 3, missing), on("n3", 3, missing)});
  REQUIRE(notices.size() == 1);
  CHECK(notices.front().what == "n[2-3]: SLURM_GPUS_ON_NODE is 4, 3 are visible");
  CHECK(notices.front().hint == "check the node's GPUs, or correct the number if it has no more");
}

TEST_CASE("numbers that the user gave may differ") {
  Announcement given = on("n2", 3);
  given.counted = false;
  CHECK(find_unlike_gpus({on("n1", 4), given}).empty());
  CHECK(find_unlike_gpus({on("n1", 4), on("n2", 4)}).empty());
  Announcement first = on("n1", 2), second = on("n2", 1);
  second.for_tasks = true;  // it sees no GPU
  CHECK(find_unlike_gpus({first, second}).size() == 1);
  first.for_tasks = true;  // the job asked for 3 tasks
  CHECK(find_unlike_gpus({first, second}).empty());
}

TEST_CASE("hosts with more workers than CPUs are named, all in one sentence") {
  const auto bound = [](const std::string& host, int workers, const std::string& cpus) {
    Announcement announcement = on(host, workers);
    announcement.cpus = cpus;
    return announcement;
  };
  const auto notice = find_crowded_hosts({bound("n1", 2, "0"), bound("n2", 2, "0"), bound("n3", 2, "4"),
                                          bound("n4", 4, "0-1"), bound("n5", 2, "0-1")});
  REQUIRE(notice);
  CHECK(notice->what == "2 workers share 1 CPU on n[1-3], 4 workers share 2 CPUs on n4");
  CHECK(notice->hint ==
        "request more CPUs for each task or node (--cpus-per-task under Slurm), or start fewer workers");
  CHECK_FALSE(find_crowded_hosts({bound("n1", 2, "0-3"), bound("n2", 2, "0-1"), bound("n3", 2, "")}));
}
