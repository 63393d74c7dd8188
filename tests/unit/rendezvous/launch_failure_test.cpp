#include "rendezvous/missing_agents.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

LaunchFailure missing(const std::string& host) {
  return make_launch_failure("cannot start train.py on " + host + ": no such file", "look", 127, host);
}

}  // namespace

TEST_CASE("the sentence of an error is taken apart at its host") {
  CHECK(missing("n3") == LaunchFailure{"cannot start train.py", ": no such file", true, "look", 127});
  CHECK(make_launch_failure("--nnodes x is not a number", "", 2, "n3") ==
        LaunchFailure{"--nnodes x is not a number", "", false, "", 2});
  CHECK_FALSE(make_launch_failure("cannot start a on n30: no", "", 2, "n3").names_host);
  CHECK_FALSE(make_launch_failure("cannot start a on : no", "", 2, "").names_host);
}

TEST_CASE("the same failure is told once for all hosts that have it") {
  const report::Cause all = describe_failed_start({{"n1", missing("n1")}, {"n2", missing("n2")}}, {});
  CHECK(all.detail == "cannot start train.py on n[1-2]: no such file");
  CHECK(all.hint == "look");
  CHECK(report::exit_code_of(all) == 127);
  const LaunchFailure wrong = make_launch_failure("--nnodes 3 is not 2", "", 2, "n1");
  CHECK(describe_failed_start({{"n1", wrong}, {"n2", wrong}}, {}).detail == "--nnodes 3 is not 2");
}

TEST_CASE("hosts that are well are named only where that helps") {
  CHECK(describe_failed_start({{"n3", missing("n3")}}, {"n1", "n2", "n4"}).detail ==
        "cannot start train.py on n3: no such file (the same path exists on n[1-2,4])");
  const LaunchFailure wrong = make_launch_failure("--nnodes 3 is not 2", "", 2, "n1");
  CHECK(describe_failed_start({{"n1", wrong}}, {"n2"}).detail == "n1: --nnodes 3 is not 2");
}

TEST_CASE("unlike failures are told one after the other, the first one's code counts") {
  const LaunchFailure wrong = make_launch_failure("--nnodes 3 is not 2", "", 2, "n1");
  const report::Cause cause =
      describe_failed_start({{"n1", wrong}, {"n2", missing("n2")}, {"n3", wrong}}, {});
  CHECK(cause.detail == "n[1,3]: --nnodes 3 is not 2; cannot start train.py on n2: no such file");
  CHECK(report::exit_code_of(cause) == 2);
}

TEST_CASE("a hint names the hosts whose mistake it is, where others are well") {
  const LaunchFailure wrong = make_launch_failure("--nnodes 3 is not 2", "count again", 2, "n1");
  CHECK(describe_failed_start({{"n3", missing("n3")}}, {"n1", "n2"}).hint == "n3: look");
  CHECK(describe_failed_start({{"n1", wrong}, {"n2", missing("n2")}, {"n3", wrong}}, {}).hint ==
        "n[1,3]: count again; n2: look");
}

TEST_CASE("what a failure says is printable") {
  const LaunchFailure odd = make_launch_failure("a\033b", "c\td", 2, "n1");
  const report::Cause cause = describe_failed_start({{"n1", odd}}, {});
  CHECK(cause.detail == "a\\x1bb");
  CHECK(cause.hint == "c\\x09d");
}
