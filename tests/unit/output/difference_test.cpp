#include "output/difference.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "catch.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::output;

namespace {

struct Pair {
  std::string kinds;  // that differ
  Comparable one, other;
};

Pair read_pair(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream all;
  all << file.rdbuf();
  Pair pair;
  std::vector<std::string> ranks;
  std::string blocks[2];
  int block = 0;
  std::vector<std::string> lines = split(all.str(), '\n');
  lines.pop_back();  // after the last line end
  for (const std::string& line : lines) {
    if (line.starts_with("# ranks: ")) ranks = split_words(line.substr(9));
    if (line.starts_with("# but for: ")) pair.kinds = line.substr(11);
    if (line.starts_with("# ")) continue;
    if (line == "----")
      block = 1;
    else
      blocks[block] += line + "\n";
  }
  REQUIRE(ranks.size() == 2);
  pair.one = make_comparable(blocks[0], GlobalRank{std::stoi(ranks[0])});
  pair.other = make_comparable(blocks[1], GlobalRank{std::stoi(ranks[1])});
  return pair;
}

std::vector<std::filesystem::path> files_in(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(DDPRUN_TEST_DATA "/folding/") + folder))
    files.push_back(entry.path());
  return files;
}

std::vector<Difference> unequal(const Pair& pair) {
  std::vector<Difference> found;
  for (std::size_t i = 0; i < pair.one.parts.size(); ++i) {
    if (pair.one.parts[i] != pair.other.parts[i]) found.push_back(pair.other.parts[i]);
  }
  return found;
}

}  // namespace

TEST_CASE("what two ranks print is the same but for what differs by nature") {
  const auto files = files_in("equal");
  CHECK(files.size() >= 10);
  for (const auto& file : files) {
    INFO(file.filename().string());
    const Pair pair = read_pair(file);
    CHECK(pair.one.text == pair.other.text);
    REQUIRE(are_alike(pair.one, pair.other));
    CHECK(describe_kinds(unequal(pair)) == pair.kinds);
  }
}

TEST_CASE("what a person would call different stays different") {
  const auto files = files_in("unlike");
  CHECK(files.size() >= 10);
  for (const auto& file : files) {
    INFO(file.filename().string());
    const Pair pair = read_pair(file);
    CHECK(pair.one.text != pair.other.text);
  }
}

TEST_CASE("kinds are named once, in words") {
  using Kind = Difference::Kind;
  CHECK(describe_kinds({}).empty());
  CHECK(describe_kinds({{Kind::port, "1"}, {Kind::port, "2"}}) == "the port");
  CHECK(describe_kinds({{Kind::time, "1"}, {Kind::port, "2"}, {Kind::rank, "3"}}) ==
        "the port, the rank and the time");
}

TEST_CASE("odd text is compared as it is") {
  for (const char* text : {"", "\n", "[", "0x", "127.0.0.", "1.2.3.4.5\n", "rank", "rank ", "pid(s)", "99:99",
                           "W1126", "[::", "/tmp/", "port=", ":955: [] NCCL "}) {
    CAPTURE(text);
    CHECK(make_comparable(text, GlobalRank{0}).parts.empty());
  }
}
