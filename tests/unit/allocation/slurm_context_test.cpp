#include "allocation/schedulers/slurm_facts.hpp"

#include "allocation/schedulers/slurm_step.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

TEST_CASE("special step ids are no steps, however they are printed") {
  const auto step = [](const std::string& id) {
    const facts::Environment environment{{"SLURM_STEP_ID", id}};
    return find_normal_step(Variables(environment));
  };
  CHECK(step("0") == 0);
  CHECK(step("4294967279") == 4294967279);  // 0xffffffef, the last normal one
  for (const char* id :
       {"4294967280", "4294967290", "4294967291", "4294967292", "4294967293", "-5", "-6", ""}) {
    CAPTURE(id);
    CHECK_FALSE(step(id));
  }
}

TEST_CASE("a job needs an id and a list within the limit") {
  const facts::Environment none;
  CHECK_THROWS_WITH(parse_slurm_job(Variables(none)), "SLURM_JOB_ID is not set");
  const facts::Environment large{{"SLURM_JOB_ID", "29"},
                                 {"SLURM_HET_SIZE", "3"},
                                 {"SLURM_JOB_NODELIST_HET_GROUP_0", "a[0-65535]"},
                                 {"SLURM_JOB_NODELIST_HET_GROUP_2", "b[0-65535]"},
                                 {"SLURM_JOB_NODELIST_HET_GROUP_1", "c"}};
  CHECK_THROWS_WITH(parse_slurm_job(Variables(large)),
                    "the components of job 29 have more than 131072 hosts");
}

TEST_CASE("tasks beyond counting are refused") {
  const facts::Environment environment{{"SLURM_STEP_NODELIST", "n[1-2]"},
                                       {"SLURM_STEP_TASKS_PER_NODE", "2147483647(x2)"}};
  CHECK_THROWS_WITH(parse_step_layout(Variables(environment)),
                    "SLURM_STEP_TASKS_PER_NODE has more tasks than can be counted");
}
