#include "os/core_claims.hpp"

#include <unistd.h>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::os;

using Cpus = std::vector<int>;

namespace {

// Numbers that no machine has, and no other test run either.
std::vector<Cpus> made_up_cores() {
  const int first = 1000000 + ::getpid() * 100;
  std::vector<Cpus> cores;
  for (int i = 0; i < 4; ++i) cores.push_back({first + i, first + 50 + i});
  return cores;
}

}  // namespace

TEST_CASE("what one holds another does not get, until the first is gone") {
  const std::vector<Cpus> cores = made_up_cores();
  const int first = cores.front().front();
  CoreClaims here;
  CoreClaims elsewhere;
  {
    CoreClaims before;
    CHECK(before.claim(cores, 2) == Cpus{first, first + 1, first + 50, first + 51});
    CHECK(here.claim(cores, 3).empty());  // and holds nothing then
    CHECK(elsewhere.claim(cores, 2) == Cpus{first + 2, first + 3, first + 52, first + 53});
  }
  CHECK(here.claim(cores, 2) == Cpus{first, first + 1, first + 50, first + 51});
}
