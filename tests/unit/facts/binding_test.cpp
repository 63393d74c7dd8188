#include "facts/binding.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("a binding is told in words") {
  CHECK(describe(Binding{{24, 25, 88, 89}, {3}, MemoryPolicy::preferred}) ==
        "CPUs 24-25,88-89, memory preferred on node 3");
  CHECK(describe(Binding{{7}, {0, 1}, MemoryPolicy::bind}) == "CPU 7, memory bound to nodes 0-1");
  CHECK(describe(Binding{{0, 2}, {}, MemoryPolicy::untouched}) == "CPUs 0,2");
  CHECK(describe(Binding{{}, {1}, MemoryPolicy::bind}) == "memory bound to node 1");
}
