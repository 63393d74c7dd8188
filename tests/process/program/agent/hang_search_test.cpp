// Signs of life of real processes, and what the coordinator is told of them.
#include "agent/hang_search.hpp"

#include "catch.hpp"
#include "os/clock.hpp"
#include "worker_rig.hpp"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::testing;

namespace {

// Workers that are searched.
struct Searched {
  Searched(int workers, std::vector<std::string> command,
           const std::function<void(options::HangOptions&)>& change)
      : rig(workers, std::move(command), [&](options::Options& options) {
          options.hang.inspect.value = false;
          change(options.hang);
        }) {
    plans.attempt = rig.plan();
    plans.node = plans.attempt->node;
    host.allowed_cpus = {0, 1};
    search.begin_attempt();
    rig.start_all();
  }
  template <class Message>
  const Message& wait_for(std::size_t number = 0) {
    const auto all = [&] {
      std::vector<const Message*> found;
      for (const auto& each : told) {
        if (const auto* message = std::get_if<Message>(&each)) found.push_back(message);
      }
      return found;
    };
    rig.run_until([&] { return all().size() > number; });
    return *all()[number];
  }

  WorkerRig rig;
  Plans plans;
  facts::HostFacts host;
  StatusService status{rig.context(), plans, rig.group, os::unix_milliseconds()};
  std::vector<rendezvous::AgentMessage> told;
  HangSearch search{rig.context(), plans, host, status,
                    [this](rendezvous::AgentMessage message) { told.push_back(std::move(message)); }};
};

auto timeout(Milliseconds time) {
  return [time](options::HangOptions& hang) {
    hang.timeout = sourced(options::HangTimeout{false, time}, "--hang-timeout");
  };
}

}  // namespace

TEST_CASE("workers that do nothing are reported as quiet, and one that works again takes that back") {
  Searched searched(2, shell("sleep 4; while :; do :; done"), timeout(Milliseconds{1500}));
  const auto& quiet = searched.wait_for<rendezvous::Quiet>();
  CHECK(quiet.quiet);
  CHECK(quiet.attempt == Attempt{1});
  CHECK(quiet.since >= Milliseconds{1500});
  CHECK_FALSE(searched.wait_for<rendezvous::Quiet>(1).quiet);
  CHECK(searched.told.size() == 2);
}

TEST_CASE("a worker that writes is not quiet, and after the end of the attempt nothing is looked at") {
  Searched searched(1, shell("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.4; done; sleep 600"),
                    timeout(Milliseconds{1500}));
  searched.rig.run_until([&] { return searched.rig.heard > 0; });
  const TimePoint began = os::now();
  searched.rig.run_until([&] { return os::now() > began + Milliseconds{2500}; });
  CHECK(searched.told.empty());
  searched.search.end_attempt();
  const TimePoint ended = os::now();
  searched.rig.run_until([&] { return os::now() > ended + Milliseconds{4000}; });
  CHECK(searched.told.empty());
}

TEST_CASE("a rank that exits while others run is reported after the time of --exit-barrier-timeout") {
  Searched searched(2, {"python3", "-c", "import time; time.sleep(600)"}, [](options::HangOptions& hang) {
    hang.exit_barrier = sourced(Milliseconds{200}, "--exit-barrier-timeout");
  });
  searched.search.note_exit(1);
  const auto& early = searched.wait_for<rendezvous::EarlyExit>();
  CHECK(early.rank == GlobalRank{1});
  CHECK(early.expired);
  CHECK(early.since == Milliseconds{200});
  searched.search.note_exit(0);
  const TimePoint ended = os::now();
  searched.rig.run_until([&] { return os::now() > ended + Milliseconds{400}; });
  CHECK(searched.told.size() == 1);
}

TEST_CASE("an exit is not reported once the attempt has ended") {
  Searched searched(2, {"python3", "-c", "import time; time.sleep(600)"}, [](options::HangOptions& hang) {
    hang.exit_barrier = sourced(Milliseconds{200}, "--exit-barrier-timeout");
  });
  searched.search.note_exit(1);
  searched.search.end_attempt();
  const TimePoint ended = os::now();
  searched.rig.run_until([&] { return os::now() > ended + Milliseconds{400}; });
  CHECK(searched.told.empty());
}
