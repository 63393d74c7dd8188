#include "ddprun/plan/meeting_ways.hpp"

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;

namespace {

Allocation launched_by(const std::string& launcher, Exchange exchange,
                       LaunchStyle style = LaunchStyle::agent_per_node) {
  Allocation allocation;
  allocation.launcher.value = launcher;
  allocation.exchange = exchange;
  allocation.style.value = style;
  allocation.first_known = launcher.empty() || launcher == "srun";
  return allocation;
}

Options meeting(Meeting how, const std::string& directory = {}) {
  Options options;
  options.meeting = how;
  options.meeting_directory = directory;
  return options;
}

Snapshot machine(const Environment& environment = {{"HOME", "/home/u"}}) {
  Snapshot snapshot;
  snapshot.environment = environment;
  snapshot.host.uid = 1000;
  return snapshot;
}

RendezvousPlan ways(const Allocation& allocation, const Options& options = {},
                    const Snapshot& snapshot = machine()) {
  RendezvousPlan rendezvous;
  rendezvous.role = RendezvousRole::member;
  rendezvous.agents = 2;
  if (allocation.first_known || allocation.first_address) rendezvous.addresses = {{"n1"}, "hosts"};
  rendezvous.key = "hydra/1";
  choose_meeting_ways(rendezvous, allocation, options, snapshot);
  return rendezvous;
}

}  // namespace

TEST_CASE("unasked, PMI is spoken under hydra by one agent a node only") {
  using enum LaunchStyle;
  CHECK(ways(launched_by("hydra", Exchange::pmi1)).exchange == Exchange::pmi1);
  CHECK(ways(launched_by("hydra", Exchange::pmi1, agent_per_task)).exchange == Exchange::none);
  CHECK(ways(launched_by("srun", Exchange::pmi1)).exchange == Exchange::none);
  CHECK(ways(launched_by("", Exchange::pmi1)).exchange == Exchange::none);
  CHECK(ways(launched_by("Open MPI", Exchange::pmix)).exchange == Exchange::none);
  CHECK(ways(launched_by("hydra", Exchange::pmi1), meeting(Meeting::file)).exchange == Exchange::none);
  Allocation named = launched_by("hydra", Exchange::pmi1);
  named.first_address = sourced(std::string("n1"), "--master-addr");
  CHECK(ways(named).exchange == Exchange::none);
  CHECK(ways(named).meeting_file.value.empty());
}

TEST_CASE("asked for, any exchange is used, or missed") {
  const Options asked = meeting(Meeting::pmi);
  CHECK(ways(launched_by("srun", Exchange::pmi1, LaunchStyle::agent_per_task), asked).exchange ==
        Exchange::pmi1);
  CHECK(ways(launched_by("Open MPI", Exchange::pmix), asked).exchange == Exchange::pmix);
  CHECK(ways(launched_by("Open MPI", Exchange::pmix), asked).meeting_file.value.empty());
  CHECK(
      usage_error_of([&] { ways(launched_by("srun", Exchange::none), asked); }) ==
      "--rdzv pmi needs a launcher that offers PMI or PMIx, and its variables do not show one | leave --rdzv "
      "out, or meet through a file with --rdzv file");
}

TEST_CASE("a meeting file is named by user and launch, in the home directory or where the user says") {
  const Allocation launched = launched_by("Open MPI", Exchange::pmix);
  const RendezvousPlan plan = ways(launched);
  CHECK(plan.meeting_file ==
        sourced(std::string("/home/u/.ddprun/meet.1000.48167b163c5a2e07"), "home directory"));
  CHECK(ways(launched, meeting(Meeting::automatic, "/scratch")).meeting_file ==
        sourced(std::string("/scratch/meet.1000.48167b163c5a2e07"), "--rdzv-dir"));
  CHECK(ways(launched_by("srun", Exchange::none)).meeting_file.value.empty());
  CHECK(ways(launched_by("srun", Exchange::none), meeting(Meeting::file)).meeting_file.origin ==
        "home directory");
  CHECK(ways(launched_by("srun", Exchange::none), meeting(Meeting::automatic, "/scratch"))
            .meeting_file.origin == "--rdzv-dir");
}

TEST_CASE("without a home directory there is no meeting file, and asking for one says why") {
  const Allocation launched = launched_by("hydra", Exchange::pmi1);
  CHECK(ways(launched, {}, machine({})).meeting_file.value.empty());
  CHECK(usage_error_of([&] { ways(launched, meeting(Meeting::file), machine({})); }) ==
        "there is no place for the meeting file: HOME is not set | name a folder with --rdzv-dir");
}

TEST_CASE("where nothing at all tells the first host, the ways out are named") {
  const Allocation tasks = launched_by("hydra", Exchange::pmi1, LaunchStyle::agent_per_task);
  Snapshot homeless = machine({});
  homeless.host.name = "n2";
  CHECK(error_of([&] { ways(tasks, {}, homeless); }) ==
        "nothing on n2 tells where the first of the 2 ddprun is: hydra names no hosts, and HOME, where they "
        "could meet, is not set | name a folder that all hosts share with --rdzv-dir, or the first host with "
        "--master-addr | 125");
}

TEST_CASE("the keys of the allocation are those of the handshake, and one agent alone needs nothing") {
  Allocation launched = launched_by("hydra", Exchange::pmi1);
  launched.secrets = {{SecretKind::pbs_cookie, "c", "PBS_JOBCOOKIE"}};
  CHECK(ways(launched).secrets == launched.secrets);
  RendezvousPlan solo;
  choose_meeting_ways(solo, launched, meeting(Meeting::pmi), machine());
  CHECK(solo.exchange == Exchange::none);
  CHECK(solo.secrets.empty());
}
