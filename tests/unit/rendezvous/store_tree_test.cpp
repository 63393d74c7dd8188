#include "rendezvous/coordinator/stage_sources.hpp"

#include <map>

#include "catch.hpp"

using namespace ddprun;

namespace {

std::vector<plan::Announcement> agents(int count) {
  std::vector<plan::Announcement> all(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    all[static_cast<std::size_t>(i)].addresses = {"10.0.0." + std::to_string(i)};
    all[static_cast<std::size_t>(i)].relay_port = 40000 + i;
  }
  return all;
}

}  // namespace

TEST_CASE("each relay has a parent, no agent too many children, and the store is the last resort") {
  for (const int count : {1, 2, 3, 33, 34, 1057, 2000}) {
    for (const std::size_t root : {std::size_t{0}, static_cast<std::size_t>(count - 1)}) {
      const auto all = agents(count);
      const auto places = rendezvous::make_store_tree(all, root, 32);
      std::map<int, int> children;
      for (std::size_t i = 0; i < places.size(); ++i) {
        INFO(count << " agents, root " << root << ", agent " << i);
        if (i == root) {
          CHECK(places[i].empty());
          continue;
        }
        REQUIRE_FALSE(places[i].empty());
        CHECK(places[i].back() == plan::StorePlace{all[root].addresses, all[root].relay_port});
        CHECK(places[i].front().port != all[i].relay_port);
        ++children[places[i].front().port];
      }
      for (const auto& [port, number] : children) CHECK(number <= 32);
    }
  }
}

TEST_CASE("an agent that listens for no relays is nobody's parent, and without the store's there are none") {
  auto all = agents(8);
  all[1].relay_port = 0;
  const auto places = rendezvous::make_store_tree(all, 0, 2);
  for (const auto& each : places) {
    for (const plan::StorePlace& place : each) CHECK(place.port > 0);
  }
  CHECK(places[3].size() == 1);  // its parent would be 1
  all[0].relay_port = 0;
  for (const auto& each : rendezvous::make_store_tree(all, 0, 2)) CHECK(each.empty());
}
