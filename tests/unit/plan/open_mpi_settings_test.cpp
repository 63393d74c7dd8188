#include "plan/worker_env.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

facts::Snapshot bound_to_one() {
  facts::Snapshot snapshot;
  snapshot.environment = {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_MCA_orte_bound_at_launch", "1"}};
  snapshot.host.allowed_cpus = {0};
  facts::Topology& topology = snapshot.host.topology.emplace();
  for (int i = 0; i < 4; ++i) topology.cores.push_back({{i}});
  return snapshot;
}

NodeProposal one_a_node() {
  NodeProposal plan;
  plan.host = "n1";
  plan.allocation.style.value = allocation::LaunchStyle::agent_per_node;
  return plan;
}

}  // namespace

TEST_CASE("that mpirun bound the only ddprun of a node to a part of it is told") {
  CHECK(find_bound_agent(one_a_node(), bound_to_one()) ==
        allocation::Notice{"Open MPI bound ddprun on n1 to CPU 0, and all its workers with it",
                           "add --bind-to none to the command line of mpirun"});
  NodeProposal per_task = one_a_node();
  per_task.allocation.style.value = allocation::LaunchStyle::agent_per_task;
  CHECK_FALSE(find_bound_agent(per_task, bound_to_one()));
  facts::Snapshot whole = bound_to_one();
  whole.host.allowed_cpus = {0, 1, 2, 3};
  CHECK_FALSE(find_bound_agent(one_a_node(), whole));
  facts::Snapshot unbound = bound_to_one();
  unbound.environment.erase("OMPI_MCA_orte_bound_at_launch");
  CHECK_FALSE(find_bound_agent(one_a_node(), unbound));
}

TEST_CASE("that mpirun kills before the workers' grace is over is told, with what prevents it") {
  facts::Snapshot snapshot = bound_to_one();
  const Milliseconds grace{30000};
  CHECK(find_early_kill(snapshot, grace) ==
        allocation::Notice{
            "Open MPI kills its processes 1 s after a stop signal, within the 30 s that workers have to save",
            "mpirun --mca odls_base_sigkill_timeout 35"});
  snapshot.environment["OMPI_MCA_odls_base_sigkill_timeout"] = "35";
  CHECK_FALSE(find_early_kill(snapshot, grace));
  snapshot.environment["OMPI_MCA_odls_base_sigkill_timeout"] = "5";
  CHECK(find_early_kill(snapshot, grace)->what.starts_with("Open MPI kills its processes 5 s after"));
  snapshot.environment["DDPRUN_FRONT_END"] = "10.0.0.1:4000/x";
  CHECK_FALSE(find_early_kill(snapshot, grace));
  CHECK_FALSE(find_early_kill(facts::Snapshot{}, grace));
}
