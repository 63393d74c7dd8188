#include "plan/launch_nodes.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

NodeProposal elastic_node(const char* launcher) {
  NodeProposal node;
  node.allocation.launcher.value = launcher;
  node.rendezvous.agents = 3;
  node.options.spares.value = 1;
  return node;
}

facts::Snapshot started_by(const facts::StepOptions& srun) {
  facts::Snapshot snapshot;
  snapshot.host.step = srun;
  return snapshot;
}

}  // namespace

TEST_CASE("an srun that ends all tasks with a failed node is named before the start") {
  constexpr const char* k_hint =
      "srun --no-kill --kill-on-bad-exit=0 --wait=0 ddprun ..., in a job submitted with sbatch --no-kill";
  const NodeProposal node = elastic_node("srun");
  CHECK(find_strict_launcher(node, started_by({false, false, 0})) ==
        allocation::Notice{"srun ends ddprun on all nodes when a node fails, without --no-kill", k_hint});
  CHECK(
      find_strict_launcher(node, started_by({true, true, 0})) ==
      allocation::Notice{
          "srun ends ddprun on all nodes when ddprun is lost on one, without --kill-on-bad-exit=0", k_hint});
  CHECK(find_strict_launcher(node, started_by({false, true, 30})) ==
        allocation::Notice{"srun ends ddprun on all nodes when ddprun is lost on one, without --no-kill "
                           "--kill-on-bad-exit=0 --wait=0",
                           k_hint});
}

TEST_CASE(
    "nothing is said of an srun that has the options, whose options cannot be seen, or that does not "
    "matter") {
  const facts::StepOptions strict{false, true, 30};
  CHECK_FALSE(find_strict_launcher(elastic_node("srun"), started_by({true, false, 0})));
  CHECK_FALSE(find_strict_launcher(elastic_node("srun"), facts::Snapshot()));
  NodeProposal fixed = elastic_node("srun");
  fixed.options.spares.value = 0;
  CHECK_FALSE(find_strict_launcher(fixed, started_by(strict)));
  NodeProposal alone = elastic_node("srun");
  alone.rendezvous.agents = 1;
  CHECK_FALSE(find_strict_launcher(alone, started_by(strict)));
  facts::Snapshot own = started_by(strict);  // ddprun started it, with what it needs
  own.environment["DDPRUN_FRONT_END"] = "n1";
  CHECK_FALSE(find_strict_launcher(elastic_node("srun"), own));
}

TEST_CASE("MPI launchers that end all with one are named too") {
  CHECK(find_strict_launcher(elastic_node("hydra"), {}) ==
        allocation::Notice{"hydra ends ddprun on all nodes when ddprun is lost on one",
                           "start ddprun by ssh (--launcher), srun or mpiexec of Open MPI"});
  CHECK(find_strict_launcher(elastic_node("Open MPI"), {}) ==
        allocation::Notice{
            "Open MPI ends ddprun on all nodes when ddprun is lost on one, without --enable-recovery", ""});
  facts::Snapshot recovering;
  recovering.environment["OMPI_MCA_orte_enable_recovery"] = "1";
  CHECK_FALSE(find_strict_launcher(elastic_node("Open MPI"), recovering));
  CHECK(
      find_strict_launcher(elastic_node("PRRTE"), {}) ==
      allocation::Notice{
          "PRRTE ends ddprun on all nodes when ddprun is lost on one, without --runtime-options recoverable",
          ""});
  CHECK_FALSE(find_strict_launcher(elastic_node("ssh"), {}));
}
