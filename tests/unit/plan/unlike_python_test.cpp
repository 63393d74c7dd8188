#include "plan/launch_nodes.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

Announcement on(const std::string& host, const std::string& python, const std::string& torch) {
  Announcement announcement;
  announcement.host = host;
  announcement.python = {python, torch};
  return announcement;
}

}  // namespace

TEST_CASE("hosts with different versions of torch are named once for each version") {
  const auto notice = find_unlike_python({on("n1", "3.11", "2.13.0"), on("n2", "3.11", "2.13.0"),
                                          on("n4", "3.11", "1.13.1"), on("n4", "3.11", "1.13.1")});
  REQUIRE(notice);
  CHECK(notice->what ==
        "the nodes have different versions: torch 1.13.1 with Python 3.11 on n4, torch 2.13.0 with Python "
        "3.11 on "
        "n[1-2]");
  CHECK(notice->hint ==
        "workers of different torch versions can wait for each other forever: use one Python environment on "
        "all nodes");
}

TEST_CASE("another Python counts as another version") {
  CHECK(find_unlike_python({on("n1", "3.11", "2.13.0"), on("n2", "3.12", "2.13.0")}));
}

TEST_CASE("hosts that agree, or where nothing was found, are no reason to speak") {
  CHECK_FALSE(find_unlike_python({on("n1", "3.11", "2.13.0"), on("n2", "3.11", "2.13.0")}));
  CHECK_FALSE(find_unlike_python({on("n1", "3.11", "2.13.0"), on("n2", "", "")}));
  CHECK_FALSE(find_unlike_python({}));
}
