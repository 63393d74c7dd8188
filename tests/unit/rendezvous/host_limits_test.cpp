// How long hosts wait for each other: at no moment may workers of two attempts run.
#include "rendezvous/host_limits.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace std::chrono_literals;

// Of a network that is cut at 0.
TEST_CASE("whatever is late, the workers of a side that is cut off have ended before others start") {
  const int given = GENERATE(7000, 7500, 8000, 10000, 20000, 45000, 100000, 101000, 333000, 3600000);
  CAPTURE(given);
  const Milliseconds host_timeout{given};
  const Milliseconds pause = probe_pause(host_timeout), limit = member_limit(host_timeout);
  REQUIRE(limit >= 3s);

  const Milliseconds member_has_killed = limit + lateness(limit) + k_killing;
  const Milliseconds coordinator_goes_on = host_timeout - pause;
  CHECK(member_has_killed <= coordinator_goes_on);

  const Milliseconds coordinator_is_outvoted = host_timeout + lateness(host_timeout);
  const Milliseconds majority = limit - pause;
  CHECK(coordinator_is_outvoted + k_killing <= majority + wait_for_coordinator(host_timeout));
  const Milliseconds last_member_has_killed = coordinator_is_outvoted + member_has_killed;
  CHECK(last_member_has_killed <= majority + wait_for_others(host_timeout));
  CHECK(wait_for_others(host_timeout) < longest_search(host_timeout));
}

TEST_CASE("limits of the default host timeout, and of the least") {
  CHECK(member_limit(10s) == 5s);
  CHECK(member_limit(k_least_host_timeout) == 3s);
  CHECK(wait_for_coordinator(10s) == 9250ms);
  CHECK(wait_for_others(10s) == 15250ms);
}

TEST_CASE("connections are probed every second, and at most 100 times within a limit") {
  CHECK(probe_pause(1s) == 1s);
  CHECK(probe_pause(100s) == 1s);
  CHECK(probe_pause(101s) == 2s);
  CHECK(probe_pause(24h) == 300s);
}
