#include "base/duration.hpp"

#include "catch.hpp"

using namespace ddprun;

TEST_CASE("a duration is a number with an optional unit") {
  CHECK(parse_duration("30") == Milliseconds{30000});
  CHECK(parse_duration("1.5") == Milliseconds{1500});
  CHECK(parse_duration("250ms") == Milliseconds{250});
  CHECK(parse_duration("10m") == Milliseconds{600000});
  CHECK(parse_duration("2h") == Milliseconds{7200000});
  CHECK(parse_duration("0") == Milliseconds{0});
}

TEST_CASE("anything else is no duration") {
  for (const char* text : {"", "s", "-1", "1x", "1 s", "nan", "inf", "1e300", "ms", "0x10"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_duration(text));
  }
}

TEST_CASE("a duration reads as a person would say it") {
  CHECK(describe_duration(Milliseconds{250}) == "250 ms");
  CHECK(describe_duration(Milliseconds{1500}) == "1.5 s");
  CHECK(describe_duration(Milliseconds{90000}) == "90 s");
  CHECK(describe_seconds(Milliseconds{90999}) == "90 s");
  CHECK(describe_duration(Milliseconds{600000}) == "10 min");
  CHECK(describe_duration(Milliseconds{7200000}) == "2 h");
}
