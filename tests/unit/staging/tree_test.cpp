#include "staging/tree.hpp"

#include <fmt/format.h>

#include <map>

#include "base/text.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::staging;

namespace {

std::vector<Server> agents(const std::vector<std::string>& hosts) {
  std::vector<Server> servers;
  for (const std::string& host : hosts)
    servers.push_back({host, fmt::format("{}/secret", servers.size() + 1), {"10.0.0.1"}});
  return servers;
}

// The doors, in the order in which they are tried.
std::string sources(const Tree& tree, std::size_t agent) {
  std::vector<std::string> names;
  for (const Server& server : tree.sources_of(agent))
    names.push_back(server.host + ":" + server.door.substr(0, server.door.find('/')));
  return join(names, " ");
}

}  // namespace

TEST_CASE("each host asks its parent first and the root last") {
  const Tree tree(agents({"a", "b", "c", "d", "e", "f", "g", "h"}), 0);
  CHECK(sources(tree, 0).empty());
  CHECK(sources(tree, 1) == "a:1");
  CHECK(sources(tree, 2) == "a:1");
  CHECK(sources(tree, 3) == "b:2 a:1");
  CHECK(sources(tree, 6) == "c:3 a:1");
  CHECK(sources(tree, 7) == "d:4 b:2 a:1");
}

TEST_CASE("the coordinator's host is the root wherever it stands") {
  const Tree tree(agents({"a", "b", "c", "d"}), 2);
  CHECK(sources(tree, 2).empty());
  CHECK(sources(tree, 0) == "c:3");
  CHECK(sources(tree, 3) == "a:1 c:3");
}

TEST_CASE("further agents of a host get it from the first one there") {
  const Tree tree(agents({"a", "a", "b", "b", "c"}), 0);
  CHECK(sources(tree, 1) == "a:1");
  CHECK(sources(tree, 2) == "a:1");
  CHECK(sources(tree, 3) == "b:3 a:1");
  CHECK(sources(tree, 4) == "a:1");
}

TEST_CASE("who cannot pass on is passed over") {
  std::vector<Server> servers = agents({"a", "b", "c", "d"});
  servers[1].door.clear();
  CHECK(sources(Tree(servers, 0), 3) == "a:1");
}

TEST_CASE("nobody is asked by more hosts than the fan-out, of thousands") {
  const Tree tree(agents([] {
                    std::vector<std::string> hosts;
                    for (int i = 0; i < 5000; ++i) hosts.push_back(fmt::format("n{}", i));
                    return hosts;
                  }()),
                  0);
  std::map<std::string, std::size_t> children;
  std::size_t deepest = 0;
  for (std::size_t agent = 1; agent < 5000; ++agent) {
    const std::vector<Server> found = tree.sources_of(agent);
    REQUIRE_FALSE(found.empty());
    CHECK(found.back().host == "n0");
    ++children[found.front().host];
    deepest = std::max(deepest, found.size());
  }
  for (const auto& [host, count] : children) CHECK(count <= k_fan_out);
  CHECK(deepest == 12);
}
