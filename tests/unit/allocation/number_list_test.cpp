#include "allocation/hostlist.hpp"

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

using Numbers = std::vector<int>;

TEST_CASE("counts repeat as Slurm writes them") {
  CHECK(expand_counts("4", "C") == Numbers{4});
  CHECK(expand_counts("4(x2),3", "C") == Numbers{4, 4, 3});
  CHECK(expand_counts("1,3,1", "C") == Numbers{1, 3, 1});
  CHECK(expand_counts("2(x3),1(x2),5", "C") == Numbers{2, 2, 2, 1, 1, 5});
}

TEST_CASE("malformed counts name their variable and the piece") {
  for (const std::string piece : {"", "0", "x2", "2(x)", "2(x0)", "2(x2", "2x2)", "-1", "2(x2)3", "2(3)",
                                  "99999999999", "2(x131073)", "2 (x2)"}) {
    CAPTURE(piece);
    CHECK_THROWS_WITH(expand_counts("1," + piece, "C"),
                      "C is not a list of counts: invalid entry \"" + piece + "\"");
  }
  CHECK_THROWS_AS(expand_counts("1(x131072),1", "C"), Error);
}

TEST_CASE("number lists hold ranges and keep their order") {
  CHECK(expand_numbers("12000-12004", "N", 65535) == Numbers{12000, 12001, 12002, 12003, 12004});
  CHECK(expand_numbers("4,5,0-1", "N", 9) == Numbers{4, 5, 0, 1});
  CHECK(expand_numbers("65535", "N", 65535) == Numbers{65535});
}

TEST_CASE("malformed numbers name their variable and the piece") {
  for (const std::string piece : {"", "a", "3-1", "1-", "-1", "65536", "1-2-3", "1 "}) {
    CAPTURE(piece);
    CHECK_THROWS_WITH(expand_numbers("7," + piece, "N", 65535),
                      "N is not a list of numbers: invalid entry \"" + piece + "\"");
  }
  CHECK_THROWS_AS(expand_numbers("0-999999999", "N", 1000000000), Error);
}
