// Real interpreters that stand by for workers of an attempt to come.
#include "agent/standby_keeper.hpp"

#include <unistd.h>

#include <fstream>

#include "catch.hpp"
#include "os/files/temp_dir.hpp"
#include "os/process/process_table.hpp"
#include "worker_rig.hpp"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::testing;

namespace {

// A host that stands by for another one's workers.
struct Spare {
  explicit Spare(std::uint64_t memory_of_each)
      : rig(2, {"python3", script()}, [&](options::Options& options) {
          options.restarts.standby.value = true;
          options.restarts.standby_memory.value = memory_of_each;
        }) {
    plans.node = rig.plan()->node;
    host.allowed_cpus = {0, 1};
    keeper.emplace(rig.context(), plans, *rig.plan(), host, rig.group,
                   [this](rendezvous::AgentMessage message) { told.push_back(std::move(message)); });
  }
  std::string script() const {
    const std::string path = folder.path() + "/train.py";
    std::ofstream(path) << "import time\ntime.sleep(600)\n";
    return path;
  }
  int pid(std::size_t worker) { return rig.group.standbys()->pid(worker); }

  os::TempDir folder{std::optional<std::string>{}};
  WorkerRig rig;
  Plans plans;
  facts::HostFacts host;
  std::vector<rendezvous::AgentMessage> told;
  std::optional<StandbyKeeper> keeper;
};

}  // namespace

TEST_CASE("a host that stands by imports what other hosts' workers have loaded, for each of its workers") {
  Spare spare(std::uint64_t{1} << 20U << 6U);  // 64 MiB
  REQUIRE(spare.rig.group.standbys() != nullptr);
  CHECK(spare.pid(0) == 0);
  spare.keeper->note({{"json", "decimal"}});
  spare.rig.run_until([&] { return spare.pid(0) > 0 && spare.pid(1) > 0; });
  const auto first = os::capture_process(spare.pid(0));
  REQUIRE(first);
  CHECK(first->name.starts_with("python"));
  CHECK(spare.told.empty());  // what others have told is not told to them
  spare.keeper->end();
  CHECK(spare.pid(0) == 0);
  CHECK(spare.pid(1) == 0);
}

TEST_CASE("where memory is short no interpreter stands by") {
  Spare spare(std::uint64_t{1} << 60U);
  spare.keeper->note({{"json"}});
  CHECK(spare.pid(0) == 0);
  CHECK(spare.pid(1) == 0);
  for (const os::ProcessEntry& process : os::capture_processes())
    CHECK_FALSE((process.parent == ::getpid() && process.name.starts_with("python")));
}
