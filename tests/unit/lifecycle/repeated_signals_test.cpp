#include "lifecycle/signal_ledger.hpp"

#include <csignal>

#include "catch.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a request to end comes once within the grace, whatever comes between") {
  lifecycle::RepeatedSignals signals({SIGTERM, SIGINT}, 30s);
  const TimePoint start{};
  CHECK(signals.passes(SIGTERM, start));
  CHECK(signals.passes(SIGCONT, start + 1ms));
  CHECK_FALSE(signals.passes(SIGTERM, start + 3ms));  // Slurm's step, then the job
  CHECK_FALSE(signals.passes(SIGTERM, start + 29s));
  CHECK(signals.passes(SIGINT, start + 29s));
  CHECK(signals.passes(SIGTERM, start + 30s));
  CHECK_FALSE(signals.passes(SIGTERM, start + 31s));
}

TEST_CASE("other signals come as often as they are sent") {
  lifecycle::RepeatedSignals signals({SIGTERM}, 30s);
  for (int i = 0; i < 3; ++i) CHECK(signals.passes(SIGUSR1, TimePoint{}));
}
