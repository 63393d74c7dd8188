#include "facts/lined_json.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("the node file of a PBS job is below PBS_HOME, wherever that is told") {
  const std::string configuration = "PBS_EXEC=/opt/pbs\n PBS_HOME=/var/pbs \nPBS_START_MOM=1\n";
  const Environment job{{"PBS_JOBID", "7.srv"}};
  CHECK(find_pbs_configuration(job) == "/etc/pbs.conf");
  CHECK(find_pbs_node_file(with_pbs_home(job, "")) == "/var/spool/pbs/aux/7.srv");
  CHECK(find_pbs_node_file(with_pbs_home(job, configuration)) == "/var/pbs/aux/7.srv");
  const Environment named{{"PBS_JOBID", "7.srv"}, {"PBS_CONF_FILE", "/site/pbs.conf"}};
  CHECK(find_pbs_configuration(named) == "/site/pbs.conf");
  const Environment home{{"PBS_JOBID", "7.srv"}, {"PBS_HOME", "/site/pbs"}};
  CHECK(find_pbs_configuration(home).empty());
  CHECK(find_pbs_node_file(with_pbs_home(home, configuration)) == "/site/pbs/aux/7.srv");
  const Environment told{{"PBS_JOBID", "7.srv"}, {"PBS_NODEFILE", "/a/b"}};
  CHECK(find_pbs_configuration(told).empty());
  CHECK(find_pbs_node_file(with_pbs_home(told, configuration)) == "/a/b");
  CHECK(find_pbs_configuration({}).empty());
  CHECK(find_pbs_node_file(with_pbs_home({{"PBS_JOBID", "../x"}}, configuration)).empty());
}
