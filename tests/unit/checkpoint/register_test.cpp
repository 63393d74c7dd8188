#include "checkpoint/register.hpp"

#include "catch.hpp"
#include "held_builder.hpp"

using namespace ddprun;
using namespace ddprun::checkpoint;
using ddprun::test::checkpoints::held;
using ddprun::test::checkpoints::published;

namespace {

using Steps = std::vector<std::int64_t>;

// Agent i is on host n<i>.
Register make_register(const std::vector<Held>& agents) {
  Register known;
  for (std::size_t i = 0; i < agents.size(); ++i)
    known.note({static_cast<int>(i)}, "n" + std::to_string(i), agents[i]);
  return known;
}

std::string describe(const std::optional<Saved>& saved) {
  return saved ? std::to_string(saved->step) + "/" + std::to_string(saved->world) : "none";
}

struct Situation {
  const char* what;
  std::vector<Held> agents;
  std::string start;  // step and world
};

const std::vector<Situation> k_situations{
    {"nothing was saved", {held(""), held("")}, "none"},
    {"one rank was faster", {held("90:0 100:0"), held("90:1")}, "90/2"},
    {"all have saved", {held("90:0 100:0"), held("90:1 100:1")}, "100/2"},
    {"a host is lost, and its neighbour has its part", {held("90:0+1 100:0+1")}, "100/2"},
    {"a host is lost before its last step was copied", {held("90:0+1 100:0")}, "90/2"},
    {"a spare has nothing", {held("90:0+1"), held("")}, "90/2"},
    {"ranks have moved to other hosts", {held("90:1"), held("90:0")}, "90/2"},
    {"two hosts that have each other's copies are lost", {held("90:0+1", 4), held("90:1+0", 4)}, "none"},
    {"the same, with a flush", {published(held("90:0+1", 4), 60, 4), held("90:1+0", 4)}, "60/4"},
    {"the flush is newer", {published(held("90:0"), 120), held("90:1")}, "120/2"},
    {"the flush is older", {held("90:0"), published(held("90:1"), 60)}, "90/2"},
    {"the flush has the same step", {held("90:0"), published(held("90:1"), 90)}, "90/2"},
    {"an agent does not see the flush", {published(held(""), 60), held("")}, "60/2"},
    {"the world has shrunk since", {held("90:0+1 100:0", 2), held("100:1+2", 3)}, "90/2"},
    {"a part of a world of another size fills no gap", {held("90:0", 2), held("90:1", 3)}, "none"},
    {"one agent has all ranks of a host", {held("7:0123", 4)}, "7/4"},
    {"a rank that is none of its world", {held("7:05", 2)}, "none"},
};

}  // namespace

TEST_CASE("an attempt starts from the newest step that every rank can get") {
  for (const Situation& each : k_situations) {
    CAPTURE(each.what);
    CHECK(describe(make_register(each.agents).newest()) == each.start);
  }
}

TEST_CASE("what a lost agent had does not count, and the published step stays known") {
  Register known = make_register({held("90:0 100:0+1"), published(held("90:1 100:1"), 60)});
  known.forget({0});
  CHECK(describe(known.newest()) == "60/2");
  CHECK(known.missing({100, 2}) == std::vector<int>{0});
  known.note({0}, "n0", held("90:0"));
  CHECK(describe(known.newest()) == "90/2");
}

TEST_CASE("an agent that has moved to another place keeps its parts") {
  Register known = make_register({held("90:0"), held("90:1")});
  known.move({1}, {5});
  known.move({7}, {8});  // nobody
  CHECK(known.holders({90, 2}).at(1) == Register::Holders{{AgentIndex{5}, true}});
  known.note({5}, "n1", held(""));
  CHECK(describe(known.newest()) == "none");
}

TEST_CASE("the newest two complete steps stay in memory, and one that survives the loss of a host") {
  CHECK(make_register({held("80:0 90:0 100:0 110:0"), held("80:1 90:1 100:1")}).kept({}) == Steps{100, 90});
  CHECK(make_register({held("90:0"), held("90:1")}).kept({}) == Steps{90});
  CHECK(make_register({held("90:0"), held("")}).kept({}).empty());
  // Saved faster than it is copied.
  CHECK(make_register({held("80:0+1 90:0 100:0"), held("80:1+0 90:1 100:1")}).kept({}) == Steps{100, 80});
  CHECK(make_register({held("80:0+1 90:0+1 100:0"), held("80:1+0 90:1+0 100:1")}).kept({}) == Steps{100, 90});
  CHECK(make_register({held("90:0+1 100:0+1"), held("90:1+0 100:1+0")}).kept({}) == Steps{100, 90});
  // Under way to the shared folder.
  CHECK(make_register({held("90:0 100:0"), held("90:1 100:1")}).kept(70) == Steps{100, 90, 70});
  CHECK(make_register({held("90:0 100:0"), held("90:1 100:1")}).kept(100) == Steps{100, 90});
}

TEST_CASE("what agents were told to remove counts no more, also if they have not said so") {
  const Held first = held("80:0 90:0 100:0", 2, 0), second = held("80:1 90:1 100:1", 2, 0);
  Register known = make_register({first, second});
  known.note_kept({100, 80});
  known.note_kept({});
  known.note({1}, "n1", held("80:1 90:1", 2, 0));
  CHECK(describe(known.newest()) == "80/2");
  known.note_kept({80});
  known.note({0}, "n0", held("80:0 90:0 110:0", 2, 0));
  CHECK(describe(known.newest()) == "80/2");
  known.note({1}, "n1", held("80:1 110:1", 2, 0));
  CHECK(describe(known.newest()) == "110/2");
  known.begin_attempt(1, 80, {{0}, {1}});
  known.note({0}, "n0", held("80:0 90:0", 2, 1, 80));
  known.note({1}, "n1", held("80:1 90:1", 2, 1, 80));
  CHECK(describe(known.newest()) == "90/2");  // saved anew
}

TEST_CASE("a copy on the same host saves nothing") {
  Register known;
  known.note({0}, "n0", held("90:0+1"));
  known.note({1}, "n0", held("90:1+0"));
  CHECK_FALSE(known.newest_safe());
  known.note({2}, "n1", held("90:+01"));
  CHECK(known.newest_safe()->step == 90);
}

TEST_CASE("an attempt that starts from an older step ends the history of newer ones") {
  Register known = make_register({held("70:0 80:0", 2, 0), held("70:1 80:1", 2, 0), held("80:+1", 2, 0)});
  known.begin_attempt(1, 70, {{0}, {1}});
  CHECK(describe(known.newest()) == "70/2");
  // The one that waits still has its copy: it is none of what is saved as step 80 now.
  known.note({0}, "n0", held("70:0 80:0", 2, 1, 70));
  known.note({1}, "n1", held("70:1", 2, 1, 70));
  CHECK(describe(known.newest()) == "70/2");
  CHECK(known.missing({80, 2}) == std::vector<int>{1});
  // Once it takes part in one that starts from there, all that it has goes first.
  known.note({1}, "n1", held("70:1 80:1", 2, 1, 70));
  CHECK(describe(known.newest()) == "80/2");
  CHECK(known.is_stale({2}, 80));
  CHECK_FALSE(known.is_stale({2}, 70));  // newer ones go anyway
  CHECK_FALSE(known.is_stale({0}, 80));
  CHECK_FALSE(known.is_stale({9}, 80));
}

TEST_CASE("what an agent says before it has heard of the start does not count") {
  Register known =
      make_register({held("70:0 80:0", 2, 0), held("70:1 80:1", 2, 0), held("60:+1 70:+1", 2, 0)});
  known.begin_attempt(1, 60, {{0}, {1}});
  known.note({0}, "n0", held("60:0 70:0", 2, 1, 60));
  known.note({1}, "n1", held("60:1 70:1", 2, 1, 60));
  known.begin_attempt(2, 70, {{0}, {1}, {2}});
  CHECK(known.holders({70, 2}).at(1) ==
        Register::Holders{{AgentIndex{1}, true}});  // the third removes its own
  known.note({2}, "n2", published(held("60:+1 70:+1", 2, 0), 50));
  CHECK(known.holders({70, 2}).at(1) == Register::Holders{{AgentIndex{1}, true}});
  CHECK(known.published()->step == 50);
  known.note({2}, "n2", held("70:+1", 2, 2, 70));
  CHECK(known.holders({70, 2}).at(1).size() == 2);
}

TEST_CASE("a next coordinator knows as much from what the agents join it with") {
  // Two have begun attempt 3 from step 70 when the coordinator was lost, one has not heard of it.
  Register known =
      make_register({held("70:0 80:0", 3, 3, 70), held("70:1", 3, 3, 70), held("70:2 80:012", 3, 2)});
  CHECK(describe(known.newest()) == "70/3");
  // One that was cut off for longer counts if all that was begun since is known.
  Register gap = make_register({held("70:0", 2, 5, 70), held("70:1", 2, 3)});
  CHECK(describe(gap.newest()) == "none");
  gap.note({2}, "n2", held("", 2, 4, 70));
  CHECK(describe(gap.newest()) == "70/2");
  // The attempts that this coordinator has not begun are none.
  gap.begin_attempt(9, 70, {{0}});
  CHECK(describe(gap.newest()) == "70/2");
}

TEST_CASE("what the attempts before started from is known from whoever took part in them") {
  Held present;
  for (const auto& [attempt, from] : {std::pair(2, -1), std::pair(4, 70), std::pair(5, 60), std::pair(6, 60)})
    begin_attempt(present, attempt, from);
  CHECK(present.before == std::vector<std::int64_t>{60, 70});  // not of attempt 2: it missed one
  Held latest = held("60:0", 2, 6, 60);
  latest.before = present.before;
  CHECK(describe(make_register({latest, held("60:1", 2, 3)}).newest()) == "60/2");
  CHECK(describe(make_register({latest, held("60:1", 2, 2)}).newest()) == "none");
  for (int attempt = 7; attempt < 99; ++attempt) begin_attempt(present, attempt, 60);
  CHECK(present.before.size() == k_most_before);
  present.flushed = 70;
  present.flushed_ranks = {0};
  begin_attempt(present, 99, 70);
  CHECK(present.flushed == 70);
  begin_attempt(present, 100, 60);
  CHECK_FALSE(present.flushed);
  CHECK(present.flushed_ranks.empty());
}

TEST_CASE("a late agent brings what is older than all that the job has started from") {
  Register known = make_register({held("90:0", 2)});
  known.begin_attempt(0, 90, {{0}});
  known.note({1}, "n1", held("90:1 100:01", 2));
  CHECK(describe(known.newest()) == "90/2");
  known.begin_attempt(1, -1, {{0}});
  CHECK(describe(known.newest()) == "none");
}

TEST_CASE("ranks are flushed by whoever says so about the history that counts") {
  Held first = held("90:0", 2, 0), second = held("90:1", 2, 0);
  first.flushed = second.flushed = 90;
  first.flushed_ranks = {0};
  second.flushed_ranks = {1};
  Register known = make_register({first, second});
  CHECK(known.flushed(90, 0) == std::set<int>{0, 1});
  CHECK(known.flushed(80, 0).empty());
  CHECK(known.flushed(90, 1).empty());
  known.begin_attempt(1, 80, {{0}});
  CHECK(known.flushed(90, 0).empty());
}
