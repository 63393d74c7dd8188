#include "options/fault_options.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::options;

TEST_CASE("--slow-notice is a share, and the time of which it is one") {
  CHECK(parse_slow_notice("10%") == SlowNotice{});
  CHECK(parse_slow_notice("25%/20s") == SlowNotice{0.25, Milliseconds{20'000}});
  CHECK(parse_slow_notice("1%/2h") == SlowNotice{0.01, Milliseconds{7'200'000}});
  for (const char* const wrong :
       {"", "10", "%", "0%", "100%", "-5%", "10%/", "10%/4s", "10%/x", "off", "x%", "1.5%"})
    CHECK_FALSE(parse_slow_notice(wrong));
}
