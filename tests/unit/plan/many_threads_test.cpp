#include "catch.hpp"
#include "plan/node_proposal.hpp"
#include "plan_node.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

facts::Snapshot machine(int cpus, int cores, const std::string& threads) {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  for (int cpu = 0; cpu < cpus; ++cpu) snapshot.host.allowed_cpus.push_back(cpu);
  snapshot.host.allowed_cores = cores;
  snapshot.host.online_cpus = cpus;
  snapshot.environment["OMP_NUM_THREADS"] = threads;
  return snapshot;
}

std::string notices_of(const facts::Snapshot& snapshot, int workers) {
  options::Options options;
  options.command = {"train.py"};
  options.workers = {options::WorkersKind::number, workers, "--nproc-per-node"};
  std::string text;
  for (const allocation::Notice& notice : test::plan_node(snapshot, options).notices)
    text += notice.what + " | " + notice.hint + "\n";
  return text;
}

}  // namespace

TEST_CASE("more threads than a worker has cores are said with both numbers") {
  CHECK(notices_of(machine(18, 18, "18"), 4) ==
        "OMP_NUM_THREADS=18 of the environment is more than the 4 cores that each worker has on n1 | unset "
        "it, and "
        "ddprun sets it to 4\n");
  CHECK(notices_of(machine(4, 4, "8,2"), 4)
            .find("OMP_NUM_THREADS=8 of the environment is more than the 1 core ") == 0);
}

TEST_CASE("threads that fit are the user's choice") {
  CHECK(notices_of(machine(18, 18, "4"), 4).empty());
  CHECK(notices_of(machine(18, 18, "18"), 1).empty());
  CHECK(notices_of(machine(16, 8, "4"), 4).empty());  // two hardware threads a core
  CHECK(notices_of(machine(18, 18, "many"), 4).empty());
}

TEST_CASE("a control group's limit counts as the cores") {
  facts::Snapshot snapshot = machine(16, 16, "8");
  snapshot.host.cpu_quota = 4;
  CHECK(notices_of(snapshot, 1).find("more than the 4 cores") != std::string::npos);
}
