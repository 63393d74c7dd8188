#include "plan/bind_workers.hpp"

#include "catch.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::plan;
using test::change_node;

namespace {

// Four cores of two threads each; one card near each pair of cores.
facts::Snapshot machine() {
  facts::Snapshot snapshot;
  snapshot.host.allowed_cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  snapshot.host.allowed_cores = 4;
  snapshot.host.online_cpus = 8;
  facts::Topology& topology = snapshot.host.topology.emplace();
  for (int i = 0; i < 4; ++i) topology.cores.push_back({{i, i + 4}});
  topology.devices = {{facts::DeviceKind::network, "0000:01:00.0", {"mlx5_0"}, {"a"}, {0, 1, 4, 5}},
                      {facts::DeviceKind::network, "0000:02:00.0", {"mlx5_1"}, {"b"}, {2, 3, 6, 7}}};
  return snapshot;
}

LaunchPlan plan_of(const std::vector<std::vector<int>>& cpus) {
  NodeProposal node;
  node.host = "n1";
  node.allocation.hosts.value = {{"n1", 1}};
  node.local_world_size = static_cast<int>(cpus.size());
  LaunchPlan plan;
  plan.node = std::make_shared<const NodeProposal>(std::move(node));
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    PlannedWorker& worker = plan.planned.emplace_back();
    worker.local_rank = LocalRank{static_cast<int>(i)};
    worker.binding.cpus = cpus[i];
  }
  return plan;
}

}  // namespace

TEST_CASE("threads follow from the bindings") {
  LaunchPlan plan = plan_of({{2, 3, 6, 7}, {0, 1, 4, 5}});
  follow_binding(plan, machine());
  CHECK(plan.threads == sourced(2, "2 cores of each worker"));
}

TEST_CASE("cards and places follow from the bindings where they are asked for") {
  LaunchPlan plan = plan_of({{2, 3, 6, 7}, {0, 1, 4, 5}});
  follow_binding(plan, machine());
  CHECK(plan.planned[0].network_card.empty());
  CHECK(plan.planned[0].omp_places.empty());
  change_node(plan, [](NodeProposal& node) { node.options.nic = {true, "--nic"}; });
  change_node(plan, [](NodeProposal& node) { node.options.omp_places = true; });
  follow_binding(plan, machine());
  CHECK(plan.planned[0].network_card == "mlx5_1");
  CHECK(plan.planned[1].network_card == "mlx5_0");
  CHECK(plan.planned[0].omp_places == "{2,6},{3,7}");
}

TEST_CASE("a card is near the worker's GPU rather than its CPUs") {
  LaunchPlan plan = plan_of({{0, 1, 4, 5}});
  change_node(plan, [](NodeProposal& node) { node.options.nic = {true, "--nic"}; });
  plan.planned[0].gpus = {0};
  facts::Snapshot snapshot = machine();
  snapshot.host.gpus = {{"nvidia", "0000:03:00.0"}};
  snapshot.host.topology->devices.push_back({facts::DeviceKind::gpu, "0000:03:00.0", {}, {"b"}, {}});
  follow_binding(plan, snapshot);
  CHECK(plan.planned[0].network_card == "mlx5_1");
}

TEST_CASE("no card to name is worth a remark where one is asked for") {
  LaunchPlan plan = plan_of({{0, 1}});
  facts::Snapshot snapshot = machine();
  snapshot.host.topology->devices.clear();
  CHECK_FALSE(find_no_card(plan, snapshot));
  change_node(plan, [](NodeProposal& node) { node.options.nic = {true, "--nic"}; });
  follow_binding(plan, snapshot);
  CHECK(find_no_card(plan, snapshot)->what ==
        "--nic has no effect: no InfiniBand, RoCE, Omni-Path or Slingshot card is seen on n1");
  snapshot.host.topology.reset();
  follow_binding(plan, snapshot);
  CHECK(find_no_card(plan, snapshot)->what == "--nic has no effect: the topology of n1 is not known");
  follow_binding(plan, machine());
  CHECK_FALSE(find_no_card(plan, machine()));
}

TEST_CASE("an unbound worker has places only where the host is its own") {
  LaunchPlan plan = plan_of({{}});
  change_node(plan, [](NodeProposal& node) { node.options.omp_places = true; });
  follow_binding(plan, machine());
  CHECK(plan.planned[0].omp_places == "{0,4},{1,5},{2,6},{3,7}");
  change_node(plan, [](NodeProposal& node) { node.local_world_size = 2; });
  follow_binding(plan, machine());
  CHECK(plan.planned[0].omp_places.empty());
}

TEST_CASE("a place is a core as far as it may be used") {
  CHECK(render_omp_places({0, 4, 5}, machine().host.topology) == "{0,4},{5}");
  CHECK(render_omp_places({0, 4}, std::nullopt) == "{0},{4}");
  CHECK(render_omp_places({}, machine().host.topology).empty());
}
