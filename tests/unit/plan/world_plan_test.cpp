#include "plan/world_plan.hpp"

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

Announcement node(int agent, const std::string& host, int workers, int index) {
  Announcement announcement;
  announcement.agent = {agent};
  announcement.host = host;
  announcement.node = NodeIndex{index};
  announcement.workers = workers;
  return announcement;
}

Announcement task(int agent, const std::string& host, int index, int rank, int local) {
  Announcement announcement = node(agent, host, 1, index);
  announcement.fixed_rank = GlobalRank{rank};
  announcement.first_local_rank = {local};
  return announcement;
}

// What a launcher says that numbers its processes and names no nodes.
Announcement launched(int rank, const std::string& host, int workers) {
  Announcement announcement = node(rank, host, workers, 0);
  announcement.node.reset();
  announcement.launcher_rank = GlobalRank{rank};
  return announcement;
}

Announcement assumed(int rank, const std::string& host, int workers) {
  Announcement announcement = launched(rank, host, workers);
  announcement.style_assumed = true;
  return announcement;
}

Announcement launched_task(int rank, const std::string& host, int local) {
  Announcement announcement = launched(rank, host, 1);
  announcement.fixed_rank = GlobalRank{rank};
  announcement.first_local_rank = {local};
  return announcement;
}

std::string refusal(const std::vector<Announcement>& announcements) {
  try {
    make_world_plan(announcements);
  } catch (const Error& error) {
    return error.what() + (error.hint().empty() ? "" : " / " + error.hint());
  }
  return "";
}

}  // namespace

TEST_CASE("ranks follow the node order, then the place on the node") {
  // Agent order is not node order.
  const WorldPlan world = make_world_plan({node(0, "n2", 3, 1), node(1, "n1", 2, 0)});
  CHECK(world.world_size == 5);
  CHECK(ranks_of(world.assignments[0]) == std::vector<int>{2, 3, 4});
  CHECK(ranks_of(world.assignments[1]) == std::vector<int>{0, 1});
  CHECK(world.assignments[0].local_world_size == 3);
  CHECK(world.assignments[0].node == NodeIndex{1});
  CHECK(world.assignments[0].node_count == 2);
  CHECK(world.assignments[0].workers[2].local_rank == LocalRank{2});
}

TEST_CASE(
    "with one ddprun per task the launcher's ranks are kept, also when they are cyclic over the nodes") {
  const WorldPlan world = make_world_plan(
      {task(0, "n1", 0, 0, 0), task(1, "n2", 1, 1, 0), task(2, "n1", 0, 2, 1), task(3, "n2", 1, 3, 1)});
  CHECK(world.world_size == 4);
  CHECK(ranks_of(world.assignments[2]) == std::vector<int>{2});
  CHECK(world.assignments[2].local_world_size == 2);
  CHECK(world.assignments[2].workers[0].local_rank == LocalRank{1});
  CHECK(world.assignments[3].node_count == 2);
}

TEST_CASE("each role is numbered by itself in rank order") {
  std::vector<Announcement> announcements{node(0, "n1", 2, 0), node(1, "n2", 1, 1), node(2, "n3", 2, 2)};
  announcements[1].role = "reader";
  const WorldPlan world = make_world_plan(announcements);
  CHECK(world.assignments[2].workers[1] == RankAssignment{{4}, {1}, 3, 4});
  CHECK(world.assignments[1].workers[0] == RankAssignment{{2}, {0}, 0, 1});
}

TEST_CASE("a world that cannot be right names the hosts") {
  CHECK(refusal({}) == "no ddprun process announced itself");
  CHECK(refusal({node(1, "n1", 1, 0)}) == "n1 announced itself as number 1 in the place of number 0");
  CHECK(refusal({node(0, "n1", 1, 0), node(1, "n2", 1, 0)}) ==
        "n1 and n2 are both node 0 / give each node its own --node-rank");
  CHECK(
      refusal({node(0, "n1", 1, 0), node(1, "n3", 1, 2)}) ==
      "n3 has node 2, but none of the 2 ddprun processes has node 1 / number the nodes from 0 without gaps");
  CHECK(
      refusal({task(0, "n1", 0, 0, 0), task(1, "n1", 0, 2, 1)}) ==
      "n1 has rank 2, but none of the 2 ddprun processes has rank 1 / number the ranks from 0 without gaps");
  CHECK(refusal({task(0, "n1", 0, 1, 0), task(1, "n2", 1, 1, 0)}) ==
        "n1 and n2 both have rank 1 / start all ddprun processes in one step");
  CHECK(refusal({task(0, "n1", 0, 0, 0), task(1, "n1", 0, 1, 0)}) ==
        "ranks 0 and 1 on n1 both have local rank 0 / start all ddprun processes in one step");
  CHECK(refusal({node(0, "n1", 1, 0), task(1, "n2", 1, 1, 0)}) ==
        "n1 and n2 disagree whether the launcher started one ddprun per node or one per worker / start all "
        "ddprun processes of a job in the same way");
  CHECK(refusal({node(0, "n1", 0, 0)}) == "n1 announced 0 workers");
}

TEST_CASE("agents that disagree about restarts are told so") {
  std::vector<Announcement> announcements{node(0, "n1", 1, 0), node(1, "n2", 1, 1)};
  announcements[1].max_restarts = 3;
  CHECK(refusal(announcements) ==
        "n1 allows 0 restarts and n2 allows 3 / give all nodes the same --max-restarts");
}

TEST_CASE("agents that disagree about what a lost node means are told so") {
  std::vector<Announcement> announcements{node(0, "n1", 1, 0), node(1, "n2", 1, 1)};
  announcements[1].host_timeout = Milliseconds{10000};
  CHECK(refusal(announcements) ==
        "n2 continues when a node is lost, but n1 ends / give all nodes the same --nnodes and --spares");
  announcements[0].host_timeout = Milliseconds{7000};
  CHECK(refusal(announcements) ==
        "n1 has a host timeout of 7 s and n2 has 10 s / give all nodes the same --host-timeout");
  announcements[1].host_timeout = announcements[0].host_timeout;
  CHECK(refusal(announcements).empty());
}

TEST_CASE("one rank of the launcher is one worker") {
  Announcement announcement = task(0, "n1", 0, 0, 0);
  announcement.workers = 2;
  CHECK(refusal({announcement}) == "n1 has 2 workers for the one rank 0 of its launcher");
}

TEST_CASE("the sum of the workers has a limit") {
  std::vector<Announcement> announcements{node(0, "n1", 1 << 24, 0), node(1, "n2", 1, 1)};
  CHECK(refusal(announcements) == "more than 16777216 workers in all");
}

TEST_CASE("nodes that nobody numbers are in the order of the lowest ranks on them") {
  const WorldPlan world = make_world_plan({launched_task(0, "n2.cluster", 0), launched_task(1, "n1", 0),
                                           launched_task(2, "N2", 1), launched_task(3, "n1", 1)});
  CHECK(world.assignments[2].node == NodeIndex{0});
  CHECK(world.assignments[1].node == NodeIndex{1});
  CHECK(world.assignments[3].local_world_size == 2);
  CHECK(world.assignments[3].node_count == 2);
  CHECK(world.assignments[3].agent_per_task);
}

TEST_CASE("agents that all assume one a node are that") {
  const WorldPlan world = make_world_plan({assumed(0, "n2", 4), assumed(1, "n1", 4)});
  CHECK(world.world_size == 8);
  CHECK(ranks_of(world.assignments[1]) == std::vector<int>{4, 5, 6, 7});
  CHECK(world.assignments[1].node == NodeIndex{1});
  CHECK_FALSE(world.assignments[0].agent_per_task);
}

TEST_CASE("an agent that assumed to have its node for itself is one worker where others are") {
  const WorldPlan world =
      make_world_plan({launched_task(0, "n1", 0), launched_task(1, "n1", 1), assumed(2, "n2", 4)});
  CHECK(world.world_size == 3);
  CHECK(ranks_of(world.assignments[2]) == std::vector<int>{2});
  CHECK(world.assignments[2].local_world_size == 1);
  CHECK(world.assignments[2].agent_per_task);
}

TEST_CASE("assumptions that meet on one host make every agent one worker") {
  const WorldPlan world = make_world_plan({assumed(0, "n1", 4), assumed(1, "n2", 4), assumed(2, "n1", 4)});
  CHECK(world.world_size == 3);
  CHECK(world.assignments[2].workers[0] == RankAssignment{{2}, {1}, 2, 3});
  CHECK(world.assignments[1].node == NodeIndex{1});
}

TEST_CASE("a launcher that is sure of one a node and is wrong is told so") {
  CHECK(refusal({launched(0, "n1", 4), launched(1, "n1", 4)}) ==
        "n1 and n1 are both node 0 / start one ddprun on each host");
}

namespace {

Announcement with_device(Announcement announcement, const std::string& device, const std::string& gpu) {
  announcement.local_workers = {{device, {gpu}}};
  return announcement;
}

Announcement with_cpus(Announcement announcement, const std::string& cpus) {
  announcement.cpus = cpus;
  return announcement;
}

}  // namespace

TEST_CASE("agents of a host that share CPUs are introduced, by local rank") {
  const WorldPlan world =
      make_world_plan({with_cpus(task(0, "n1", 0, 0, 1), "0-7"), with_cpus(task(1, "n1", 0, 1, 0), "0-7"),
                       with_cpus(task(2, "n1", 0, 2, 2), "8-15"), with_cpus(task(3, "n2", 1, 3, 0), "0-7")});
  const std::vector<LocalPeer> expected{{{0}, true, {{}}}, {{1}, true, {{}}}, {{2}, false, {{}}}};
  CHECK(world.assignments[0].local_peers == expected);
  CHECK(world.assignments[1].local_peers == expected);
  CHECK(world.assignments[2].local_peers.empty());  // its CPUs are its own
  CHECK(world.assignments[3].local_peers.empty());  // it is alone on its host
}

TEST_CASE("agents of a host that have devices are introduced") {
  const WorldPlan world =
      make_world_plan({with_device(task(0, "n1", 0, 0, 0), "0", "0000:01:00.0"), task(1, "n1", 0, 1, 1)});
  const std::vector<LocalPeer> expected{{{0}, false, {{"0", {"0000:01:00.0"}}}}, {{1}, false, {{}}}};
  CHECK(world.assignments[0].local_peers == expected);
  CHECK(world.assignments[1].local_peers == expected);
}

TEST_CASE("agents that concern nobody else are not introduced") {
  const WorldPlan unbound = make_world_plan({task(0, "n1", 0, 0, 0), task(1, "n1", 0, 1, 1)});
  CHECK(unbound.assignments[0].local_peers.empty());
  const WorldPlan nodes =
      make_world_plan({with_cpus(node(0, "n1", 2, 0), "0-7"), with_cpus(node(1, "n2", 2, 1), "0-7")});
  CHECK(nodes.assignments[0].local_peers.empty());
  const WorldPlan apart =
      make_world_plan({with_cpus(task(0, "n1", 0, 0, 0), "0-7"), with_cpus(task(1, "n1", 0, 1, 1), "8-15")});
  CHECK(apart.assignments[0].local_peers.empty());
}

TEST_CASE("an agent that turns out to be one worker has the device of its place") {
  std::vector<Announcement> agents{assumed(0, "n1", 2), assumed(1, "n1", 2), assumed(2, "n1", 1)};
  agents[0].local_workers = agents[1].local_workers = {{"0", {"a"}}, {"1", {"b"}}};
  agents[2].local_workers = {{"0", {"c"}}};
  const std::vector<LocalPeer> local_peers = make_world_plan(agents).assignments[0].local_peers;
  CHECK(local_peers == std::vector<LocalPeer>{{{0}, false, {{"0", {"a"}}}},
                                              {{1}, false, {{"1", {"b"}}}},
                                              {{2}, false, {{"0", {"c"}}}}});
}

TEST_CASE("every agent learns whether some agent has several workers, and how many each node has") {
  const WorldPlan uneven = make_world_plan({node(0, "n1", 4, 0), node(1, "n2", 4, 1), node(2, "n3", 1, 2)});
  for (const Assignment& assignment : uneven.assignments) {
    CHECK(assignment.several_workers);
    CHECK(assignment.workers_of_nodes == "4(x2),1");
  }
  const WorldPlan single = make_world_plan({node(0, "n1", 1, 0), node(1, "n2", 1, 1)});
  CHECK_FALSE(single.assignments.front().several_workers);
}
