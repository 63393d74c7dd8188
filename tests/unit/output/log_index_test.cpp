#include "output/log_layout.hpp"

#include <nlohmann/json.hpp>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::output;

namespace {

LogIndexEntry entry(int attempt, int rank, const char* host) {
  LogIndexEntry entry;
  entry.attempt.value = attempt;
  entry.rank.value = rank;
  entry.host = host;
  entry.pid = 100 + rank;
  entry.exit_code = 0;
  return entry;
}

}  // namespace

TEST_CASE("the index has the ranks of all hosts by attempt and rank") {
  const std::string one = render_index_part("a", {entry(0, 1, "n1"), entry(1, 1, "n1")});
  const std::string other = render_index_part("a", {entry(0, 0, "n2"), entry(1, 0, "n2")});
  const auto index = nlohmann::json::parse(merge_index_parts("a", {one, other}));
  std::vector<std::string> hosts;
  for (const auto& worker : index["workers"]) hosts.push_back(worker["host"]);
  CHECK(hosts == std::vector<std::string>{"n2", "n1", "n2", "n1"});
  CHECK(index["workers"][1]["pid"] == 101);
}

TEST_CASE("what an earlier launch or somebody else left there is no part of the index") {
  const std::string part = render_index_part("a", {entry(0, 0, "n1")});
  const std::string old = render_index_part("b", {entry(0, 0, "n9")});
  const auto index =
      nlohmann::json::parse(merge_index_parts("a", {part, old, "", "[]", "{\"launch\": \"a\"}", "{"}));
  CHECK(index["workers"].size() == 1);
  CHECK(is_index_of("a", part));
  CHECK_FALSE(is_index_of("a", old));
  CHECK_FALSE(is_index_of("a", ""));
}

TEST_CASE("a part that somebody has changed costs the index the workers that are none") {
  const std::string part = render_index_part("a", {entry(0, 1, "n1")});
  const std::string changed =
      R"({"launch": "a", "workers": [7, "x", {"attempt": "one", "rank": 0}, {"attempt": 0, "rank": 1e99}, {}]})";
  const auto index = nlohmann::json::parse(merge_index_parts("a", {changed, part}));
  REQUIRE(index["workers"].size() == 1);
  CHECK(index["workers"][0]["host"] == "n1");
}

TEST_CASE("a worker killed by a signal has no exit code") {
  LogIndexEntry killed = entry(0, 0, "n1");
  killed.exit_code.reset();
  killed.signal = "SIGKILL";
  const auto index = nlohmann::json::parse(render_index_part("a", {killed}));
  CHECK(index["workers"][0]["exit_code"].is_null());
  CHECK(index["workers"][0]["signal"] == "SIGKILL");
}
