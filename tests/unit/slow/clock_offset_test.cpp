#include "slow/trace.hpp"

#include "catch.hpp"

using namespace ddprun::slow;

TEST_CASE("the smallest of several round trips gives the offset, and its half the bound") {
  ClockOffset offset;
  CHECK_FALSE(offset.reading());
  offset.note(1000, 501'900, 1900);  // the way back took long
  offset.note(2000, 502'040, 2060);
  offset.note(3000, 503'100, 3400);
  REQUIRE(offset.reading());
  CHECK(offset.reading()->offset == 500'010);  // it is 500'000: within the bound
  CHECK(offset.reading()->bound == 30);
  CHECK_FALSE(offset.is_done());
  offset.note(4000, 504'100, 4400);
  offset.note(5000, 505'100, 5400);
  CHECK(offset.is_done());
  offset.begin();
  CHECK_FALSE(offset.is_done());
  CHECK_FALSE(offset.reading());
}

TEST_CASE("an answer that came before its question, as the clock was set, says nothing") {
  ClockOffset offset;
  offset.note(2000, 5000, 1000);
  CHECK_FALSE(offset.reading());
}
