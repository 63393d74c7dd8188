#include "allocation/launchers/launchers.hpp"

#include "allocation/launchers/launcher_rows.hpp"
#include "base/error.hpp"
#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

namespace {

std::string refusal(const facts::Environment& environment) {
  facts::Snapshot snapshot;
  snapshot.environment = environment;
  try {
    find_launch_places(snapshot);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string left_over(std::vector<std::string> titles) {
  facts::HostFacts host;
  for (std::string& title : titles) host.ancestors.push_back({1, std::move(title)});
  LaunchPlace place;
  place.launcher = "hydra";
  place.rank = sourced(1, "PMI_RANK");
  place.size = sourced(4, "PMI_SIZE");
  try {
    check_not_left_over(place, host);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("numbers of a launcher that do not fit each other are named") {
  CHECK(refusal({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}) == "PMI_RANK=4, but PMI_SIZE=4");
  CHECK(refusal({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "3"}}) ==
        "MPI_LOCALNRANKS=3 is more than PMI_SIZE=2");
  CHECK(refusal({{"PMI_RANK", "0"}, {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "2"}}) ==
        "MPI_LOCALRANKID=3, but MPI_LOCALNRANKS=2");
  CHECK(refusal({{"PMI_RANK", "-1"}}) == "PMI_RANK=-1 is not a number from 0 to 2147483647");
}

TEST_CASE("a launcher's variables below nothing but shells are another launch's") {
  const std::string left = "PMI_RANK=1 (of 4) is set, but only shells are between this ddprun and ";
  CHECK(left_over({"-bash", "/opt/pbs/sbin/pbs_mom -N"}) ==
        left + "/opt/pbs/sbin/pbs_mom -N: the variable is left from another launch");
  CHECK(left_over({"/bin/sh ./job", "slurmstepd: [29.batch]"}) ==
        left + "slurmstepd: [29.batch]: the variable is left from another launch");
  CHECK(left_over({"bash", "hydra_pmi_proxy --control-port n1:1", "pbs_mom"}).empty());
  CHECK(left_over({"python3 start.py", "pbs_mom"}).empty());
  CHECK(left_over({"bash", "slurmstepd: [29.0]"}).empty());
  CHECK(left_over({}).empty());
}

TEST_CASE("a launcher's variables below nothing but shells are left in somebody's terminal") {
  for (const char* terminal : {"sshd: lab@pts/0", "sshd-session: lab@pts/12", "/bin/login -p --",
                               "tmux new -s a", "SCREEN -S work"}) {
    CAPTURE(terminal);
    CHECK(left_over({"-bash", "sudo -E bash", terminal}) ==
          std::string("PMI_RANK=1 (of 4) is set, but only shells are between this ddprun and ") + terminal +
              ": the variable is left from another launch");
    CHECK(left_over({"hydra_pmi_proxy --control-port n1:1", "mpiexec", "-bash", terminal}).empty());
    CHECK(left_over({"mpirun.openmpi -n 2 ddprun", "-bash", terminal}).empty());
  }
  CHECK(
      left_over({"bash -c PMI_RANK=1 ddprun", "sshd: lab@notty"}).empty());  // a launcher may use ssh itself
}

TEST_CASE("a process of a launcher whose rank is lost is no world of one") {
  const auto said = [](std::vector<std::string> titles,
                       const facts::Environment& environment) -> std::string {
    facts::Snapshot snapshot;
    snapshot.host.name = "n2";
    snapshot.environment = environment;
    for (std::string& title : titles) snapshot.host.ancestors.push_back({1, std::move(title)});
    try {
      check_rank_not_lost(snapshot);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(said({"/bin/sh ./start", "/usr/bin/orted -mca ess env"}, {}) ==
        "orted started this ddprun on n2, but no variable gives its rank");
  CHECK(said({"hydra_pmi_proxy --control-port n1:1"}, {{"PBS_JOBID", "7"}}) ==
        "hydra_pmi_proxy started this ddprun on n2, but no variable gives its rank");
  CHECK(said({"orted"}, {{"OMPI_COMM_WORLD_RANK", "0"}}).empty());
  CHECK(said({"python3 driver.py", "orted"}, {}).empty());  // started for its own sake
  CHECK(said({"-bash", "sshd: lab@pts/0"}, {}).empty());
  CHECK(said({}, {}).empty());
}

TEST_CASE("a process of HPE MPT without its rank is told what to give") {
  facts::Snapshot snapshot;
  snapshot.host.name = "n2";
  snapshot.environment = {{"MPT_LRANK", "0"}};
  CHECK(error_of([&] { check_rank_not_lost(snapshot); }) ==
        "HPE MPT started this ddprun on n2 (MPT_LRANK=0), but PMI_RANK is not set: no variable gives its "
        "rank among "
        "all | start one ddprun on each host and give its place: --nnodes N --node-rank R --master-addr "
        "HOST; or "
        "call ddprun once in the job's script, without mpiexec_mpt | 125");
  snapshot.environment["PMI_RANK"] = "1";
  CHECK(error_of([&] { check_rank_not_lost(snapshot); }) == "no error");
  CHECK(find_launch_places(snapshot).at(0).launcher == "HPE MPT");
}

TEST_CASE("what is above a process shows whether a job's script is") {
  const auto below = [](std::vector<std::string> titles) {
    facts::HostFacts host;
    for (std::string& title : titles) host.ancestors.push_back({1, std::move(title)});
    return is_below_script(host);
  };
  CHECK(below({"bash run.sh", "-sh", "/opt/pbs/sbin/pbs_mom", "/sbin/init"}) == true);
  CHECK(below({"python flow.py", "-sh", "slurmstepd: [29.batch]"}) == true);
  CHECK(below({"sh", "sshd: lab@notty", "/usr/lib/systemd/systemd"}) == false);
  CHECK(below({"arrayd", "/sbin/init splash"}) == false);
  CHECK_FALSE(below({"-bash", "sshd: lab@pts/0", "/sbin/init"}).has_value());
  CHECK_FALSE(below({"-bash", "tmux new", "/sbin/init"}).has_value());
  CHECK_FALSE(below({"-sh"}).has_value());  // other users' processes are hidden
  CHECK_FALSE(below({}).has_value());
}

TEST_CASE("the name of a launch tells where PRRTE was called") {
  CHECK(find_prrte_host("prterun-n1-1485@1") == "n1");
  CHECK(find_prrte_host("prterun-gpu-node-7.cluster-1485@1") == "gpu-node-7.cluster");
  for (const char* other : {"", "483524609", "slurm.pmix.29.0", "prterun@1", "prterun-1@1", "prterun-n1-x@1",
                            "prterun--1@1", "prterun-n1-@1", "prterun-a b-1@1"}) {
    CAPTURE(other);
    CHECK_FALSE(find_prrte_host(other).has_value());
  }
}

TEST_CASE("only numeric addresses of mpirun are taken") {
  facts::Snapshot snapshot;
  snapshot.environment = {
      {"OMPI_COMM_WORLD_RANK", "0"},
      {"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1,evil name,192.168.7.1:49861;usock;tcp6://[fd00::1]:9"}};
  std::vector<std::string> found;
  const auto places = find_launch_places(snapshot);
  for (const auto& front_end : places.at(0).front_end) found.push_back(front_end.value);
  CHECK(found == std::vector<std::string>{"10.0.0.1", "192.168.7.1", "fd00::1"});
}
