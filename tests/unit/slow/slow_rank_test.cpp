#include "slow/slow_watch.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::slow;
using namespace std::chrono_literals;

namespace {

// Rank 1, on n2, is at its sixth collective; ranks 0, 2 and 3 wait in the seventh.
status::JobStatus job() {
  status::JobStatus job;
  for (int rank = 0; rank < 4; ++rank) {
    status::WorkerStatus worker;
    worker.rank = rank;
    worker.pid = 100 + rank;
    worker.own_cpu = 90s;
    worker.cpu_wait = 3s;
    worker.view.collective =
        status::Collective{"all_reduce", "default_pg", rank == 1 ? 6 : 7, "", rank != 1, {}};
    worker.view.stack = {{"/lib/python3.12/site-packages/torch/nn.py", 9, "forward"},
                         {"/home/ada/data.py", rank == 1 ? 88 : 12, "decode"}};
    job.here.push_back({rank == 1 ? "n2" : "n1", {}, {worker}});
  }
  return job;
}

std::string told(const status::JobStatus& status) {
  const auto notice = describe_slow(status, {1, 0.184}, 300s);
  REQUIRE(notice);
  return notice->what;
}

const std::string k_slow = "rank 1 on n2 is slow: the other ranks waited for it 18 % of the last 5 min";

}  // namespace

TEST_CASE("a slow rank is told with the place where it is while the others wait") {
  status::JobStatus status = job();
  CHECK(told(status) == k_slow + "; while they wait it is at data.py:88 in decode");
  CHECK(describe_slow(status, {1, 0.184}, 300s)->seen_late);
  for (status::NodeStatus& node : status.here) node.workers[0].view.collective->sequence = 7;
  CHECK(told(status) == k_slow);
  CHECK_FALSE(describe_slow(status, {1, 0.184}, 300s)->seen_late);
}

TEST_CASE("a slow rank that waits for a CPU more than the others do") {
  status::JobStatus status = job();
  status.here[1].workers[0].view = {};
  CHECK(told(status) == k_slow);
  status.here[1].workers[0].cpu_wait = 30s;
  CHECK(told(status) ==
        k_slow + "; it waited for a CPU 25 % of the time in which it could run, the others 3 %");
  for (status::NodeStatus& node : status.here) node.workers[0].cpu_wait = 30s;
  CHECK(told(status) == k_slow);
}

TEST_CASE("a slow rank that a disk keeps waiting") {
  status::JobStatus status = job();
  status.here[1].workers[0].view = {};
  status.here[1].workers[0].view.process = "in uninterruptible sleep (state D) in nfs_wait";
  CHECK(told(status) == k_slow + "; it is in uninterruptible sleep (state D) in nfs_wait");
}

TEST_CASE("a rank that has ended, or is not shown, is not told") {
  status::JobStatus status = job();
  status.here[1].workers[0].pid = 0;
  CHECK_FALSE(describe_slow(status, {1, 0.2}, 300s));
  CHECK_FALSE(describe_slow(status, {9, 0.2}, 300s));
}
