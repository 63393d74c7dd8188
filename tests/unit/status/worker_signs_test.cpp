#include "status/hang_watch.hpp"

#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::status;
using namespace std::chrono_literals;

TEST_CASE("what a look shows of a worker are its signs of life") {
  WorkerStatus worker;
  CHECK_FALSE(signs_of(worker).running);
  CHECK_FALSE(signs_of(worker).waits);  // nothing of it answers
  worker.pid = 7;
  worker.output_age = 3s;
  worker.progress_age = 4s;
  worker.io = 5;
  worker.own_cpu = 6s;
  worker.cpu_wait = 7s;
  worker.cpu_time = 8s;
  worker.view.nccl.emplace().started = 9;
  worker.view.answers = true;
  CHECK(signs_of(worker).waits == false);
  auto& collective = worker.view.collective.emplace();
  collective.pending = true;
  collective.age = 10s;
  const status::Signs signs = signs_of(worker);
  CHECK(signs.running);
  CHECK(signs.waits == true);
  CHECK((signs.output_age == 3s && signs.progress_age == 4s && signs.collective_age == 10s));
  CHECK((signs.io_bytes == 5 && signs.nccl_started == 9));
  CHECK((signs.own_cpu == 6s && signs.children_cpu == 2s && signs.cpu_wait == 7s));
}

// Two ranks of torch 2.13 with steps of 40 s; after 16 of them, at 632 s, rank 1 sleeps before an all_reduce.
// A line: what `ddprun --status=json` has shown then.
TEST_CASE("auto: a recorded job with steps of 40 s hangs after more than 400 s of silence, and not before") {
  status::HangWatch watch(options::HangTimeout{true, {}});
  const TimePoint start{1h};
  watch.begin(2, 1, start);
  std::istringstream lines(test_data("hang_looks/steps_of_40_s.jsonl"));
  std::vector<Milliseconds> quiet;  // since when, at each look
  for (std::string line; std::getline(lines, line);) {
    const auto node = parse_node_status(line);
    REQUIRE(node);
    const TimePoint now = start + node->measured;
    for (std::size_t i = 0; i < 2; ++i) watch.note(i, signs_of(node->workers.at(i)), now, now);
    if (const auto silence = watch.quiet_for(now)) quiet.push_back(*silence);
  }
  REQUIRE_FALSE(quiet.empty());
  CHECK((quiet.front() >= 400s && quiet.front() < 430s));
  CHECK((watch.limit() >= 400s && watch.limit() <= quiet.front()));
}
