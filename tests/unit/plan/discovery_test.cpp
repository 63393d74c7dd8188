#include "plan/rendezvous_plan.hpp"

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

allocation::Allocation launched_by(const std::string& launcher, allocation::KeyValueSpace key_value_space,
                                   allocation::LaunchStyle style = allocation::LaunchStyle::agent_per_node) {
  allocation::Allocation allocation;
  allocation.launcher.value = launcher;
  allocation.key_value_space = key_value_space;
  allocation.style.value = style;
  allocation.first_known = launcher.empty() || launcher == "srun";
  return allocation;
}

options::Options discovery(options::Discovery how, const std::string& directory = {}) {
  options::Options options;
  options.discovery = how;
  options.rendezvous_directory = directory;
  return options;
}

facts::Snapshot machine(const facts::Environment& environment = {{"HOME", "/home/u"}}) {
  facts::Snapshot snapshot;
  snapshot.environment = environment;
  snapshot.host.uid = 1000;
  return snapshot;
}

RendezvousPlan ways(const allocation::Allocation& allocation, const options::Options& options = {},
                    const facts::Snapshot& snapshot = machine()) {
  RendezvousPlan rendezvous;
  rendezvous.role = RendezvousRole::member;
  rendezvous.agents = 2;
  if (allocation.first_known || allocation.first_address) rendezvous.addresses = {{"n1"}, "hosts"};
  rendezvous.key = "hydra/1";
  choose_discovery(rendezvous, allocation, options, snapshot);
  return rendezvous;
}

}  // namespace

TEST_CASE("unasked, PMI is spoken under hydra by one agent a node only") {
  using enum allocation::LaunchStyle;
  CHECK(ways(launched_by("hydra", allocation::KeyValueSpace::pmi1)).key_value_space ==
        allocation::KeyValueSpace::pmi1);
  CHECK(ways(launched_by("hydra", allocation::KeyValueSpace::pmi1, agent_per_task)).key_value_space ==
        allocation::KeyValueSpace::none);
  CHECK(ways(launched_by("srun", allocation::KeyValueSpace::pmi1)).key_value_space ==
        allocation::KeyValueSpace::none);
  CHECK(ways(launched_by("", allocation::KeyValueSpace::pmi1)).key_value_space ==
        allocation::KeyValueSpace::none);
  CHECK(ways(launched_by("Open MPI", allocation::KeyValueSpace::pmix)).key_value_space ==
        allocation::KeyValueSpace::none);
  CHECK(ways(launched_by("hydra", allocation::KeyValueSpace::pmi1), discovery(options::Discovery::file))
            .key_value_space == allocation::KeyValueSpace::none);
  allocation::Allocation named = launched_by("hydra", allocation::KeyValueSpace::pmi1);
  named.first_address = sourced(std::string("n1"), "--master-addr");
  CHECK(ways(named).key_value_space == allocation::KeyValueSpace::none);
  CHECK(ways(named).rendezvous_file.value.empty());
}

TEST_CASE("asked for, any key-value space is used, or missed") {
  const options::Options asked = discovery(options::Discovery::pmi);
  CHECK(ways(launched_by("srun", allocation::KeyValueSpace::pmi1, allocation::LaunchStyle::agent_per_task),
             asked)
            .key_value_space == allocation::KeyValueSpace::pmi1);
  CHECK(ways(launched_by("Open MPI", allocation::KeyValueSpace::pmix), asked).key_value_space ==
        allocation::KeyValueSpace::pmix);
  CHECK(ways(launched_by("Open MPI", allocation::KeyValueSpace::pmix), asked).rendezvous_file.value.empty());
  CHECK(usage_error_of([&] { ways(launched_by("srun", allocation::KeyValueSpace::none), asked); }) ==
        "--rdzv pmi requires a launcher with PMI or PMIx, but its variables show neither | leave --rdzv out, "
        "or use --rdzv file");
}

TEST_CASE("a rendezvous file is named by user and launch, in the home directory or where the user says") {
  const allocation::Allocation launched = launched_by("Open MPI", allocation::KeyValueSpace::pmix);
  const RendezvousPlan plan = ways(launched);
  CHECK(plan.rendezvous_file ==
        sourced(std::string("/home/u/.ddprun/meet.1000.48167b163c5a2e07"), "home directory"));
  CHECK(ways(launched, discovery(options::Discovery::automatic, "/scratch")).rendezvous_file ==
        sourced(std::string("/scratch/meet.1000.48167b163c5a2e07"), "--rdzv-dir"));
  CHECK(ways(launched_by("srun", allocation::KeyValueSpace::none)).rendezvous_file.value.empty());
  CHECK(ways(launched_by("srun", allocation::KeyValueSpace::none), discovery(options::Discovery::file))
            .rendezvous_file.origin == "home directory");
  CHECK(ways(launched_by("srun", allocation::KeyValueSpace::none),
             discovery(options::Discovery::automatic, "/scratch"))
            .rendezvous_file.origin == "--rdzv-dir");
}

TEST_CASE("without a home directory there is no rendezvous file, and asking for one says why") {
  const allocation::Allocation launched = launched_by("hydra", allocation::KeyValueSpace::pmi1);
  CHECK(ways(launched, {}, machine({})).rendezvous_file.value.empty());
  CHECK(usage_error_of([&] { ways(launched, discovery(options::Discovery::file), machine({})); }) ==
        "cannot place the rendezvous file: HOME is not set | name a folder with --rdzv-dir");
}

TEST_CASE("where nothing at all tells the first host, the ways out are named") {
  const allocation::Allocation tasks =
      launched_by("hydra", allocation::KeyValueSpace::pmi1, allocation::LaunchStyle::agent_per_task);
  facts::Snapshot homeless = machine({});
  homeless.host.name = "n2";
  CHECK(error_of([&] { ways(tasks, {}, homeless); }) ==
        "cannot locate the coordinator from n2, one of 2 ddprun processes: hydra names no hosts, and HOME, "
        "for a rendezvous file, is not set | name a folder that all hosts share with --rdzv-dir, or the "
        "first host with --master-addr | 125");
}

TEST_CASE("the keys of the allocation are those of the handshake, and one agent alone needs nothing") {
  allocation::Allocation launched = launched_by("hydra", allocation::KeyValueSpace::pmi1);
  launched.secrets = {{allocation::SecretKind::pbs_cookie, "c", "PBS_JOBCOOKIE"}};
  CHECK(ways(launched).secrets == launched.secrets);
  RendezvousPlan solo;
  choose_discovery(solo, launched, discovery(options::Discovery::pmi), machine());
  CHECK(solo.key_value_space == allocation::KeyValueSpace::none);
  CHECK(solo.secrets.empty());
}
