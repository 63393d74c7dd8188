#include "plan/bind_workers.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

using Cpus = std::vector<int>;

// Eight CPUs, without a topology.
facts::Snapshot pbs_host() {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.host.allowed_cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  return snapshot;
}

NodeProposal plan_of(int workers, int granted) {
  NodeProposal plan;
  plan.allocation.scheduler = {facts::Scheduler::pbs, "PBS_JOBID"};
  plan.allocation.style = {allocation::LaunchStyle::alone, ""};
  plan.allocation.cpus_on_node = {granted, "NCPUS"};
  plan.workers = {workers, "default"};
  plan.offered.resize(static_cast<std::size_t>(workers));
  return plan;
}

}  // namespace

TEST_CASE("a PBS job that may use the whole host keeps to as many cores as it was granted") {
  const GrantedCores granted = find_granted_cores(plan_of(2, 4), pbs_host());
  CHECK(granted.count == 4);
  CHECK(granted.origin == "NCPUS");
  CHECK(granted.cores == std::vector<Cpus>{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
  CHECK(describe_held_cores("n1", granted).what ==
        "NCPUS grants 4 cores on n1, but other ddprun processes use so many of them that the workers share "
        "cores");
}

TEST_CASE("cores near the workers' GPUs are wanted first, one for each worker in turn") {
  facts::Snapshot snapshot = pbs_host();
  NodeProposal plan = plan_of(2, 4);
  for (const Cpus& near : {Cpus{6, 7}, Cpus{2, 3}}) {
    facts::Gpu gpu;
    gpu.local_cpus = near;
    snapshot.host.gpus.push_back(gpu);
  }
  plan.gpus = snapshot.host.gpus;
  plan.offered[0].gpus = {0};
  plan.offered[1].gpus = {1};
  CHECK(find_granted_cores(plan, snapshot).cores ==
        std::vector<Cpus>{{6}, {2}, {7}, {3}, {0}, {1}, {4}, {5}});
}

TEST_CASE("a narrower mask, another scheduler, a number that nobody chose and --bind none are left alone") {
  const auto count = [](const NodeProposal& plan) { return find_granted_cores(plan, pbs_host()).count; };
  CHECK(count(plan_of(1, 1)) == 1);
  CHECK(count(plan_of(2, 8)) == 0);
  CHECK(count(plan_of(2, 0)) == 0);
  CHECK(count(plan_of(4, 2)) == 0);
  NodeProposal plan = plan_of(1, 1);
  plan.gpus.resize(1);
  CHECK(count(plan) == 0);  // PBS' default, on a node that was given as a whole
  plan = plan_of(2, 4);
  plan.options.bind.mode = options::BindMode::none;
  CHECK(count(plan) == 0);
  plan = plan_of(2, 4);
  plan.allocation.scheduler.value = facts::Scheduler::slurm;
  CHECK(count(plan) == 0);
}
