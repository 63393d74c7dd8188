#include "os/clock.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::os;

TEST_CASE("the next multiple is at least half of the time away, and is one of the wall clock's") {
  for (const Milliseconds every : {Milliseconds{10'000}, Milliseconds{3'600'000}, Milliseconds{7}}) {
    const std::int64_t before = unix_milliseconds();
    const Milliseconds left = until_multiple(every);
    const std::int64_t after = unix_milliseconds();
    CHECK(left >= every / 2);
    CHECK(left <= every * 3 / 2);
    const std::int64_t multiple = (after + left.count()) / every.count() * every.count();
    CHECK(multiple >= before + left.count());
    CHECK(multiple <= after + left.count());
  }
}
