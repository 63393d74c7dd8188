// Orders by the network: of recorded and constructed networks (tests/data/networks), and of single rules.
#include "plan/network_order.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "allocation/hostlist.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::plan;
using allocation::NetworkPlace;

namespace {

NetworkPlace on(std::string switches, std::string domain = {}) {
  return {{}, std::move(switches), std::move(domain)};
}

// "n[1,3,2,4]: 2 of 4": the order, and the crossings of its ring of those of the order before.
std::string ordered(const std::vector<std::string>& hosts, const std::vector<NetworkPlace>& places) {
  std::vector<std::size_t> before;
  for (std::size_t i = 0; i < hosts.size(); ++i) before.push_back(i);
  const std::vector<std::size_t> order = order_by_network(places);
  std::vector<std::string> names;
  for (const std::size_t i : order) names.push_back(hosts[i]);
  return fmt::format("{}: {} of {}", allocation::compress_hostlist(names), count_crossings(places, order),
                     count_crossings(places, before));
}

}  // namespace

TEST_CASE("hosts of recorded networks are in the order of their switches") {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_TEST_DATA "/networks")) {
    const std::string folder = "networks/" + entry.path().filename().string();
    INFO(folder);
    ++cases;
    const auto shown = allocation::parse_shown_topology(test_data(folder + "/topology"));
    const auto hosts = allocation::expand_hostlist(trim(test_data(folder + "/hosts")), "hosts");
    std::vector<NetworkPlace> places;
    for (const std::string& host : hosts) {
      const auto found = shown.find(to_lower(short_host_name(host)));
      places.push_back(found != shown.end() ? found->second : on(allocation::find_cabinet(host)));
    }
    CHECK(ordered(hosts, places) == trim(test_data(folder + "/expected")));
  }
  CHECK(cases >= 4);
}

TEST_CASE("what is not known keeps its place, and a domain is whole across switches") {
  CHECK(ordered({"a", "b", "c"}, {on(""), on(""), on("")}) == "a,b,c: 0 of 0");
  CHECK(ordered({"a", "b", "c", "d"}, {on("s/1"), on(""), on("s/1"), on("s/2")}) == "a,c,d,b: 3 of 4");
  const std::vector<NetworkPlace> spanning{on("s/1", "X"), on("s/2", "Y"), on("s/1", "Y"), on("s/2", "X")};
  CHECK(ordered({"a", "b", "c", "d"}, spanning) == "a,d,b,c: 2 of 2");
  CHECK(ordered({"a", "b", "c"}, {on("", "X"), on("", "Y"), on("", "X")}) == "a,c,b: 2 of 2");
}

TEST_CASE("upper switches are kept together as well") {
  const std::vector<NetworkPlace> places{on("s/a/1"), on("s/b/3"), on("s/a/2"),
                                         on("s/b/3"), on("s/a/1"), on("s/b/4")};
  CHECK(ordered({"n1", "n2", "n3", "n4", "n5", "n6"}, places) == "n[1,5,3,2,4,6]: 4 of 6");
}

TEST_CASE("an order that was given comes first, and the hosts that it does not name keep theirs") {
  const std::vector<NetworkPlace> places{on("s/1"), {1, {}, {}}, {0, {}, {}}, on("s/1")};
  CHECK(order_by_network(places) == std::vector<std::size_t>{2, 1, 0, 3});
}

TEST_CASE("the nearest has the same domain, then most switches in common") {
  CHECK(closeness(on("s/a/1"), on("s/a/2")) == 2);
  CHECK(closeness(on("s/a/1"), on("t/a/1")) == 0);
  CHECK(closeness(on(""), on("")) == 0);
  CHECK(closeness(on("s/1", "X"), on("t/9", "X")) > closeness(on("s/a/b/c/1"), on("s/a/b/c/1")));
}

TEST_CASE("agents without a place are told, and those that are single tasks") {
  Announcement known, unknown;
  known.host = "n1";
  known.network = on("s/1");
  unknown.host = "n2";
  CHECK_FALSE(find_unordered({known, known}));
  CHECK(find_unordered({known, unknown})->what ==
        "neither a switch nor an NVLink domain of n2 is known; it keeps the scheduler's place");
  known.network = {0, {}, {}};
  CHECK(find_unordered({known, unknown})->what ==
        "n2 is in no line of the file of --order; ranks there are the last");
  known.fixed_rank = GlobalRank{0};
  CHECK(find_unordered({known})->what == "--order has no effect: the launcher started one ddprun per task");
}
