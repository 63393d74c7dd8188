#include "output/line_limits.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::output;

namespace {

TimePoint at(int ms) { return TimePoint{} + std::chrono::seconds(100) + Milliseconds{ms}; }

}  // namespace

TEST_CASE("a stream within its rate is shown whole") {
  LineRate rate(10);
  CHECK(rate.add("12345678\n", at(0)) == "12345678\n");
  CHECK(rate.add("1234", at(1000)) == "1234");
  CHECK(rate.add("5678\n", at(1001)) == "5678\n");
  CHECK_FALSE(rate.next_tick());
}

TEST_CASE("whole lines beyond the rate are left out and counted once the second is over") {
  LineRate rate(4);
  CHECK(rate.add("ab\ncdefgh\nij\nk", at(0)) == "ab\ncdefgh\n");
  CHECK(rate.add("l\n", at(10)).empty());
  CHECK_FALSE(rate.take_left_out(at(999)));
  CHECK(rate.next_tick() == at(1000));
  const auto left_out = rate.take_left_out(at(1000));
  REQUIRE(left_out);
  CHECK(left_out->lines == 2);
  CHECK(left_out->bytes == 6);
  CHECK(rate.add("mn\n", at(1000)) == "mn\n");
  CHECK_FALSE(rate.take_left_out(at(5000)));
}

TEST_CASE("a line that is left out is so to its end, also in the next second") {
  LineRate rate(2);
  CHECK(rate.add("ab\ncd", at(0)) == "ab\n");
  CHECK(rate.add("ef\ngh\n", at(1500)) == "gh\n");
  const auto rest = rate.take_rest();
  CHECK(rest.lines == 1);
  CHECK(rest.bytes == 5);
}

TEST_CASE("what was left out is described for people") {
  CHECK(describe_left_out({1, 12}, "rank 3 on n2") ==
        "1 line (12 bytes) of rank 3 on n2 omitted (--output-rate)");
  CHECK(describe_left_out({51234, 5123400}, "rank 3 on n2") ==
        "51234 lines (5.1 MB) of rank 3 on n2 omitted (--output-rate)");
}
