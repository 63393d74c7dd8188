#include "plan/finalise.hpp"

#include "base/error.hpp"
#include "catch.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

facts::Snapshot laptop() {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.host.allowed_cpus = {0, 1, 2, 3};
  snapshot.host.allowed_cores = 4;
  snapshot.host.online_cpus = 4;
  return snapshot;
}

options::Options two_workers() {
  options::Options options;
  options.command = {"true"};
  options.no_python = true;
  options.workers = {options::WorkersKind::number, 2, "--nproc-per-node"};
  options.place.workers_per_node = sourced(2, "--nproc-per-node");
  return options;
}

std::shared_ptr<const NodeProposal> proposal() {
  return std::make_shared<const NodeProposal>(test::propose_node(laptop(), two_workers()));
}

}  // namespace

TEST_CASE("the ranks of a plan are those of the assignment, whatever was expected") {
  const auto node = proposal();
  Assignment assignment = make_expected_assignment(*node);
  REQUIRE(assignment.workers.size() == 2);
  assignment.world_size = 6;
  assignment.workers[0].rank = GlobalRank{4};
  assignment.workers[1].rank = GlobalRank{5};
  const LaunchPlan plan = finalise(node, assignment, laptop());
  CHECK(plan.planned[0].rank == GlobalRank{4});
  CHECK(plan.planned[1].rank == GlobalRank{5});
  CHECK(plan.assignment == assignment);
  CHECK(plan.node == node);
  CHECK(plan.planned[1].command == node->offered[1].command);
}

TEST_CASE("ranks to show of which there is none are noticed") {
  const auto notices_with = [](const std::string& ranks, const std::vector<int>& local) {
    options::Options options = two_workers();
    options.output.ranks = output::parse_rank_ranges(ranks, "--ranks");
    options.output.local_ranks = local;
    const auto node = std::make_shared<const NodeProposal>(test::propose_node(laptop(), options));
    return finalise(node, make_expected_assignment(*node), laptop()).notices;
  };
  CHECK(notices_with("2,8-9", {}) ==
        std::vector<allocation::Notice>{{"--ranks chooses none of the 2 ranks: no output is shown",
                                         "give a number from 0 to 1, or leave out --ranks"}});
  CHECK(notices_with("all", {2}) ==
        std::vector<allocation::Notice>{
            {"--local-ranks-filter chooses none of the 2 local ranks: no output is shown",
             "give a number from 0 to 1, or leave out --local-ranks-filter"}});
  CHECK(notices_with("1-9", {0, 7}).empty());
  CHECK(notices_with("none", {}).empty());
}

TEST_CASE("an assignment for another number of workers than were offered is refused") {
  const auto node = proposal();
  Assignment assignment = make_expected_assignment(*node);
  assignment.workers.pop_back();
  CHECK_THROWS_AS(finalise(node, assignment, laptop()), Error);
  assignment.workers.clear();
  CHECK_THROWS_AS(finalise(node, assignment, laptop()), Error);
}

TEST_CASE("one that had assumed to be alone on its node becomes one task where the others are") {
  facts::Snapshot snapshot = laptop();
  snapshot.environment = {{"PMI_RANK", "1"},        {"PMI_SIZE", "3"},        {"PMI_ID", "1"},
                          {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}, {"HOME", "/home/lab"}};
  const auto node = std::make_shared<const NodeProposal>(test::propose_node(snapshot, two_workers()));
  REQUIRE(node->allocation.style.value == allocation::LaunchStyle::agent_per_node);
  Assignment assignment = make_expected_assignment(*node);
  assignment.agent_per_task = true;
  // Two workers each were asked for: what contradicts the launch is an error, and no plan.
  CHECK_THROWS_AS(finalise(node, assignment, snapshot), Error);
  options::Options options = two_workers();
  options.workers = {};
  options.place.workers_per_node.reset();
  const auto single = std::make_shared<const NodeProposal>(test::propose_node(snapshot, options));
  assignment.workers = {{GlobalRank{1}, LocalRank{0}, 1, 3}};
  const LaunchPlan plan = finalise(single, assignment, snapshot);
  CHECK(plan.node != single);
  CHECK(plan.node->allocation.style.value == allocation::LaunchStyle::agent_per_task);
  CHECK(plan.planned.size() == 1);
  CHECK(plan.node->rendezvous.key == single->rendezvous.key);
}

TEST_CASE("what is said of a plan is said of its node first") {
  const auto node = [] {
    NodeProposal changed = *proposal();
    changed.notices = {{"of the node", ""}};
    return std::make_shared<const NodeProposal>(std::move(changed));
  }();
  LaunchPlan plan = finalise(node, make_expected_assignment(*node), laptop());
  plan.notices = {{"of the share", ""}};
  CHECK(notices_of(plan) == std::vector<allocation::Notice>{{"of the node", ""}, {"of the share", ""}});
}
