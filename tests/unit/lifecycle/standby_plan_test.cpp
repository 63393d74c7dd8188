#include "lifecycle/standby_plan.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;
using namespace std::chrono_literals;

using Prepares = std::vector<StandbyPlan::Prepare>;

namespace {

const TimePoint k_now{1h};

StandbyPlan plan_of(std::size_t workers, std::size_t at_once = 1) {
  StandbyPlan plan(at_once);
  plan.begin_attempt(workers, k_now);
  return plan;
}

}  // namespace

TEST_CASE("a standby interpreter is prepared once a worker has loaded the same twice running") {
  StandbyPlan plan = plan_of(1);
  CHECK(plan.take_due(k_now).empty());
  for (const std::size_t count : {0U, 800U, 1900U}) {
    plan.note_modules({count});
    CHECK(plan.take_due(k_now).empty());
  }
  plan.note_modules({1900});
  CHECK(plan.take_due(k_now) == Prepares{{0, true}});
  CHECK(plan.take_due(k_now).empty());
}

TEST_CASE("few import at a time") {
  StandbyPlan plan = plan_of(3, 2);
  plan.note_modules({10, 10, 10});
  plan.note_modules({10, 10, 10});
  CHECK(plan.take_due(k_now) == Prepares{{0, true}, {1, true}});
  CHECK(plan.take_due(k_now).empty());
  plan.note_ready(1);
  CHECK(plan.take_due(k_now) == Prepares{{2, true}});
}

TEST_CASE("what has been loaded since is imported too, by the one that is there") {
  StandbyPlan plan = plan_of(1);
  plan.note_modules({10});
  plan.note_modules({10});
  plan.take_due(k_now);
  plan.note_modules({12});
  CHECK(plan.take_due(k_now).empty());
  plan.note_ready(0);
  CHECK(plan.take_due(k_now) == Prepares{{0, false}});
  plan.note_ready(0);
  CHECK(plan.take_due(k_now).empty());
}

TEST_CASE("in a later attempt the first answer is enough, and only what is not there is prepared") {
  StandbyPlan plan = plan_of(2, 8);
  plan.note_modules({10, 10});
  plan.note_modules({10, 10});
  plan.take_due(k_now);
  plan.note_ready(0);
  plan.note_ready(1);
  plan.begin_attempt(2, k_now + 1min);
  plan.note_taken(0);
  CHECK(plan.take_due(k_now).empty());  // its successor would disturb a worker's start
  plan.note_modules({4, 4});
  CHECK(plan.take_due(k_now) == Prepares{{0, true}});
}

TEST_CASE("a package that is unfit is left out from then on, and who fails again and again is given up") {
  StandbyPlan plan = plan_of(1);
  plan.note_modules({10});
  plan.note_modules({10});
  for (int failures = 0; failures < StandbyPlan::k_most_failures; ++failures) {
    CHECK(plan.take_due(k_now) == Prepares{{0, true}});
    plan.note_unfit(0, failures < 3 ? "mpi4py" : "");
  }
  CHECK(plan.take_due(k_now).empty());
  CHECK(plan.left_out() == std::vector<std::string>{"mpi4py"});
}

TEST_CASE("imports that do not end are given up, and others follow") {
  StandbyPlan plan = plan_of(2);
  plan.note_modules({10, 10});
  plan.note_modules({10, 10});
  CHECK(plan.take_due(k_now) == Prepares{{0, true}});
  CHECK(plan.overdue(k_now + StandbyPlan::k_longest_import - 1ms).empty());
  CHECK(plan.overdue(k_now + StandbyPlan::k_longest_import) == std::vector<std::size_t>{0});
  plan.give_up(0);
  CHECK(plan.overdue(k_now + 1h).empty());
  CHECK(plan.take_due(k_now) == Prepares{{1, true}});
}

TEST_CASE("who is given up is tried again in the next attempt") {
  StandbyPlan plan = plan_of(1);
  plan.note_modules({10});
  plan.note_modules({10});
  CHECK(plan.take_due(k_now).size() == 1);
  plan.give_up(0);
  CHECK(plan.take_due(k_now).empty());
  plan.begin_attempt(1, k_now);
  plan.note_modules({10});
  CHECK(plan.take_due(k_now).size() == 1);
}

TEST_CASE("looks become rarer with the attempt's age, and rare once nothing is loaded any more") {
  StandbyPlan plan = plan_of(1);
  CHECK(plan.next_look(k_now) == k_now + 2s);
  CHECK(plan.next_look(k_now + 40s) == k_now + 50s);
  CHECK(plan.next_look(k_now + 1h) == k_now + 1h + 1min);
  for (int looks = 0; looks <= StandbyPlan::k_looks_alike; ++looks) plan.note_modules({10});
  CHECK(plan.next_look(k_now + 1h) == k_now + 1h + 10min);
  plan.note_modules({11});
  CHECK(plan.next_look(k_now + 1h) == k_now + 1h + 1min);
}

TEST_CASE("a worker that has not answered is asked again soon, and rarely once it never will") {
  StandbyPlan plan = plan_of(2);
  for (int looks = 0; looks <= StandbyPlan::k_looks_alike; ++looks) plan.note_modules({10, 0});
  CHECK(plan.next_look(k_now + 10s) == k_now + 12s);
  CHECK(plan.next_look(k_now + 160s) == k_now + 170s);
  CHECK(plan.next_look(k_now + 10min) == k_now + 20min);
  plan.note_modules({10, 10});
  CHECK(plan.next_look(k_now + 160s) == k_now + 200s);
  for (int looks = 0; looks <= StandbyPlan::k_looks_alike; ++looks) plan.note_modules({10, 10});
  CHECK(plan.next_look(k_now + 160s) == k_now + 760s);
}

TEST_CASE("the world may become smaller or larger between attempts") {
  StandbyPlan plan = plan_of(2, 8);
  plan.note_modules({10, 10});
  plan.note_modules({10, 10, 10});
  CHECK(plan.take_due(k_now).size() == 2);
  plan.begin_attempt(1, k_now);
  plan.begin_attempt(3, k_now);
  plan.note_modules({10, 10, 10});
  plan.note_modules({10, 10, 10});
  CHECK(plan.take_due(k_now) == Prepares{{1, true}, {2, true}});
}
