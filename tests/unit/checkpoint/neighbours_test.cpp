#include "checkpoint/register.hpp"

#include <set>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::checkpoint;

namespace {

// "a/n1 a/n1 b/n2": agents with their unit and host; no unit before the slash: not known.
std::vector<Place> places(const std::vector<std::string>& texts) {
  std::vector<Place> all;
  for (const std::string& text : texts) {
    const std::size_t slash = text.find('/');
    all.push_back({{static_cast<int>(all.size())}, text.substr(slash + 1), text.substr(0, slash)});
  }
  return all;
}

std::map<int, int> neighbours(const std::vector<std::string>& texts) {
  std::map<int, int> found;
  for (const auto& [agent, other] : choose_neighbours(places(texts))) found[agent.value] = other.value;
  return found;
}

using Pairs = std::map<int, int>;

}  // namespace

TEST_CASE("each agent copies the one of the next host") {
  CHECK(neighbours({}).empty());
  CHECK(neighbours({"/n0"}).empty());
  CHECK(neighbours({"/n0", "/n0"}).empty());
  CHECK(neighbours({"/n0", "/n1"}) == Pairs{{0, 1}, {1, 0}});
  CHECK(neighbours({"/n0", "/n1", "/n2"}) == Pairs{{0, 1}, {1, 2}, {2, 0}});
  CHECK(neighbours({"/n0", "/n0", "/n1", "/n1"}) == Pairs{{0, 2}, {1, 3}, {2, 0}, {3, 1}});
}

TEST_CASE("the next host is one of another switch where none has more than half") {
  CHECK(neighbours({"a/n0", "a/n1", "b/n2", "b/n3"}) == Pairs{{0, 2}, {1, 3}, {2, 0}, {3, 1}});
  CHECK(neighbours({"a/n0", "b/n1", "a/n2", "b/n3"}) == Pairs{{0, 1}, {2, 3}, {1, 0}, {3, 2}});
  CHECK(neighbours({"a/n0", "a/n1", "a/n2", "b/n3"}) == Pairs{{0, 1}, {1, 2}, {2, 3}, {3, 0}});
}

TEST_CASE("no agent copies its own host or another one twice, whatever the hosts are") {
  for (int seed = 0; seed < 300; ++seed) {
    std::vector<std::string> texts;
    const int hosts = 1 + seed % 5;
    for (int i = 0; i < 3 + seed % 7; ++i) {
      const int host = (i * (1 + seed % 3) + seed / 7 * i) % hosts;
      texts.push_back(std::string(1, static_cast<char>('a' + host % (1 + seed % 3))) + "/n" +
                      std::to_string(host));
    }
    CAPTURE(texts);
    const auto all = places(texts);
    std::map<std::string, std::size_t> sizes;
    for (const Place& each : all) ++sizes[each.host];
    std::size_t largest = 0;
    for (const auto& [host, size] : sizes) largest = std::max(largest, size);
    std::set<AgentIndex> copied;
    const auto found = choose_neighbours(all);
    for (const auto& [agent, other] : found) {
      const auto host = [&](AgentIndex one) { return all[static_cast<std::size_t>(one.value)].host; };
      CHECK(host(agent) != host(other));
      CHECK(copied.insert(other).second);
    }
    CHECK((found.size() == all.size()) == (2 * largest <= all.size()));
  }
}
