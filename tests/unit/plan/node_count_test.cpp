#include "plan/launch_nodes.hpp"

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

// One process of hydra for each of the hosts.
std::vector<Announcement> on(const std::vector<std::string>& hosts) {
  std::vector<Announcement> all;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    Announcement each;
    each.agent = AgentIndex{static_cast<int>(i)};
    each.host = hosts[i];
    each.launcher_rank = GlobalRank{static_cast<int>(i)};
    each.style_assumed = true;
    all.push_back(each);
  }
  return all;
}

ExpectedNodes expected(int asked, int of_job) {
  ExpectedNodes result;
  if (asked > 0) result.asked = sourced(asked, "--nnodes");
  result.of_job = sourced(of_job, "PBS_NODEFILE");
  result.launcher = "hydra";
  result.one_a_node = "mpiexec -n {0} -ppn 1";
  return result;
}

std::optional<allocation::Notice> check(const std::vector<std::string>& hosts, int asked, int of_job) {
  const auto announcements = on(hosts);
  return check_node_count(announcements, make_world_plan(announcements), expected(asked, of_job));
}

}  // namespace

TEST_CASE("fewer hosts than --nnodes asks for is an error that shows the right command") {
  try {
    check({"n1", "n1"}, 2, 2);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.what() == std::string("--nnodes 2, but hydra started 2 ddprun processes on 1 node (n1)"));
    CHECK(error.hint() == "start one ddprun on each node: mpiexec -n 2 -ppn 1 ddprun ...");
  }
  CHECK_THROWS_AS(check({"n1", "n1", "n2"}, 3, 0), Error);
  CHECK_THROWS_AS(check({"n1", "n2"}, 1, 0), Error);
}

TEST_CASE("as many hosts as --nnodes asks for is silent, with several processes on each as well") {
  CHECK_FALSE(check({"n1", "n2"}, 2, 4));
  CHECK_FALSE(check({"n1", "n1", "n2", "n2"}, 2, 2));
}

TEST_CASE("fewer hosts than the job has is noticed where nobody asked for fewer") {
  const auto notice = check({"n1", "n1"}, 0, 2);
  REQUIRE(notice);
  CHECK(notice->what == "hydra started ddprun on 1 of the job's 2 nodes (n1)");
  CHECK(notice->hint ==
        "start one ddprun on each node: mpiexec -n 2 -ppn 1 ddprun ...; to use 1 on purpose, add --nnodes 1");
  CHECK_FALSE(check({"n1", "n2"}, 0, 2));
  CHECK_FALSE(check({"n1", "n2"}, 0, 0));
}
