#include "report/report.hpp"

#include <csignal>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::report;
using namespace std::chrono_literals;

TEST_CASE("ranks that were killed are named with the time they had and where they were") {
  KilledRanks killed{{1}, "n1", SIGTERM, 30004ms, "is at train.py:31 in save"};
  CHECK(describe(killed) == "rank 1 on n1 was killed 30 s after SIGTERM; it was at train.py:31 in save");
  killed.ranks = {0, 1, 2, 5};
  CHECK(describe(killed) ==
        "ranks 0-2,5 on n1 were killed 30 s after SIGTERM; rank 0 was at train.py:31 in save");
  killed.place.clear();
  CHECK(describe(killed) == "ranks 0-2,5 on n1 were killed 30 s after SIGTERM");
}

TEST_CASE("ranks that were killed at one place are one entry") {
  const auto at = [](int rank, const std::string& place) {
    return KilledRanks{{rank}, "n1", SIGTERM, 30s, place};
  };
  const auto folded = fold_alike({at(2, "is in save"), at(0, "is in save"), at(1, "is in load")});
  REQUIRE(folded.size() == 2);
  CHECK(folded[0].ranks == std::vector{0, 2});
  CHECK(folded[1].ranks == std::vector{1});
}
