#include "rendezvous/missing_agents.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;

TEST_CASE("ranks are named in runs") {
  CHECK(describe_ranks({3}) == "rank 3");
  CHECK(describe_ranks({2, 0, 1, 3}) == "ranks 0-3");
  CHECK(describe_ranks({0, 1, 4, 9, 8}) == "ranks 0-1, 4 and 8-9");
}

TEST_CASE("who is missing is named by host") {
  CHECK(describe_missing({1}, 3, {"n1", "n2", "n3"}) == "1 of 3 nodes: n2");
}

TEST_CASE("with several agents a host they are tasks, and each host is named once") {
  CHECK(describe_missing({2, 3}, 4, {"n1", "n1", "n2", "n2"}) == "2 of 4 tasks on n2");
}

TEST_CASE("without names there are numbers") {
  CHECK(describe_missing({1, 2, 3}, 4, {}) == "3 of 4 nodes: node rank 1-3");
  CHECK(describe_missing({1, 2}, 3, {"n1", "", ""}) == "2 of 3 nodes: node rank 1-2");
}

TEST_CASE("a host name from a peer cannot drive the terminal") {
  CHECK(describe_hosts({"n\x1b[2J"}) == "n\\x1b[2J");
}
