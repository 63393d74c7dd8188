#include "output/copy_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "catch.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::output;

namespace {

constexpr const char* k_error = "Traceback (most recent call last):\n  x\nModuleNotFoundError: torch\n";
using Blocks = CopyFolder::Blocks;

TimePoint at(int ms) { return TimePoint{} + std::chrono::seconds(100) + Milliseconds{ms}; }

struct Bench {
  CopyFolder folder;
  explicit Bench(int streams, Blocks blocks = Blocks::all) {
    for (int i = 0; i < streams; ++i) folder.open(i, GlobalRank{i}, blocks);
  }
  // "2: text" for what is shown as it was written.
  std::string shown() {
    std::string text;
    for (const auto& piece : folder.take()) {
      if (piece.ended) continue;
      const bool own = piece.ranks.empty() && piece.hosts.empty();
      text += own ? fmt::format("{}: {}", piece.stream, piece.text) : describe_copies(piece);
    }
    return text;
  }
};

}  // namespace

TEST_CASE("the first block is shown at once, and its copies are one line without waiting for the moment") {
  Bench bench(4);
  bench.folder.add(0, k_error, at(0));
  CHECK(bench.shown() == std::string("0: ") + k_error);
  CHECK_FALSE(bench.folder.next_tick());
  for (int i = 1; i < 4; ++i) bench.folder.add(i, k_error, at(i * 10));
  CHECK(bench.shown().empty());
  bench.folder.tick(at(130));
  CHECK(bench.shown() == "[1-3] the same 3 lines as rank 0: ModuleNotFoundError: torch\n");
  CHECK_FALSE(bench.folder.next_tick());
}

TEST_CASE("copies of some ranks are told after a moment, a single one is shown") {
  Bench bench(8);
  bench.folder.add(1, "same\n", at(0));
  bench.folder.add(3, "same\n", at(1));
  bench.folder.add(4, "same\n", at(2));
  bench.folder.add(5, "other\n", at(3));
  bench.folder.add(6, "other\n", at(4));
  CHECK(bench.shown() == "1: same\n5: other\n");
  bench.folder.tick(at(104));
  CHECK(bench.shown().empty());
  CHECK(bench.folder.next_tick() == at(604));
  bench.folder.tick(at(604));
  CHECK(bench.shown() == "[3-4] the same as rank 1: same\n6: other\n");
}

TEST_CASE(
    "lines that come one by one are compared as blocks, and one that differs in the end is shown whole") {
  Bench bench(4);
  int ms = 0;
  for (const char* line : {"a\n", "b\n"}) {
    for (int i = 0; i < 4; ++i) bench.folder.add(i, line, at(++ms));
  }
  bench.folder.add(3, "c\n", at(++ms));
  CHECK(bench.shown() == "0: a\n0: b\n");  // the first may still catch up with the last
  bench.folder.tick(at(200));
  bench.folder.tick(at(700));
  CHECK(bench.shown() == "3: a\nb\nc\n[1-2] the same 2 lines as rank 0: b\n");
}

TEST_CASE("the end of a line may come later than the line") {
  const std::string_view line = std::string_view(k_error).substr(0, std::string_view(k_error).size() - 1);
  Bench bench(4);
  for (int i = 0; i < 4; ++i) bench.folder.add(i, line, at(i));
  bench.folder.tick(at(200));
  CHECK(bench.shown() == fmt::format("0: {}", line));
  for (int i = 0; i < 4; ++i) bench.folder.add(i, "\n", at(210 + i));
  CHECK(bench.shown() == "0: \n");
  bench.folder.tick(at(320));
  CHECK(bench.shown() == "[1-3] the same 3 lines as rank 0: ModuleNotFoundError: torch\n");
}

TEST_CASE("what differs by nature makes no difference, and is named") {
  Bench bench(4);
  const auto closed = [](int rank, int port) {
    return fmt::format(
        "[rank{}]: Traceback (most recent call last):\n[rank{}]: Connection closed by peer [10.0.0.1]:{}\n",
        rank, rank, port);
  };
  for (int i = 0; i < 4; ++i) bench.folder.add(i, closed(i, 57000 + i), at(i));
  bench.folder.tick(at(103));
  CHECK(
      bench.shown() ==
      "0: " + closed(0, 57000) +
          "[1-3] the same 2 lines as rank 0 but for the port: Connection closed by peer [10.0.0.1]:57000\n");
}

TEST_CASE("bytes that look like the mark of a difference are none") {
  Bench bench(3);
  const std::string odd = "peer " + make_comparable("10.0.0.1", GlobalRank{0}).text + "\n";
  bench.folder.add(0, odd, at(0));
  for (int i = 1; i < 3; ++i) bench.folder.add(i, "peer 10.0.0.1\n", at(i));
  for (const int ms : {110, 700}) bench.folder.tick(at(ms));
  CHECK(bench.shown() == "0: " + odd + "1: peer 10.0.0.1\n2: peer 10.0.0.1\n");
}

TEST_CASE("torch's mark of a rank makes no difference") {
  Bench bench(3);
  for (int i = 0; i < 3; ++i) bench.folder.add(i, fmt::format("[rank{}]: Error\n", i), at(i));
  bench.folder.tick(at(102));
  CHECK(bench.shown() == "0: [rank0]: Error\n[1-2] the same as rank 0: Error\n");
}

TEST_CASE("what a rank writes after a copy comes after it") {
  Bench bench(4);
  for (int i = 0; i < 3; ++i) bench.folder.add(i, "same\n", at(i));
  bench.folder.tick(at(110));
  bench.folder.add(2, "own\n", at(120));  // and before the moment is over
  CHECK(bench.shown() == "0: same\n[1-2] the same as rank 0: same\n2: own\n");
}

TEST_CASE("progress bars, prompts and floods are not held") {
  Bench bench(3);
  for (int i = 0; i < 3; ++i) bench.folder.add(i, " 10%\r", at(i));
  CHECK(bench.shown() == "0:  10%\r1:  10%\r2:  10%\r");
  const std::string large(20000, 'x');
  for (int i = 0; i < 3; ++i) bench.folder.add(i, large + "\n", at(1000 + i));
  CHECK(bench.shown().size() == 3 * (large.size() + 4));
  for (int i = 0; i < 3; ++i) bench.folder.add(i, "name: ", at(2000 + i));
  bench.folder.tick(at(2302));
  CHECK(bench.shown() == "0: name: 1: name: 2: name: ");
  CHECK_FALSE(bench.folder.next_tick());
}

TEST_CASE("of stdout and stderr in one stream only tracebacks have copies") {
  Bench bench(3, Blocks::tracebacks);
  for (int i = 0; i < 3; ++i) bench.folder.add(i, "hello\n", at(i));
  CHECK(bench.shown() == "0: hello\n1: hello\n2: hello\n");
  for (int i = 0; i < 3; ++i) bench.folder.add(i, std::string("step\n") + k_error, at(500 + i));
  const std::string step = "step\n";
  CHECK(bench.shown() == "0: step\n0: " + std::string(k_error) + "1: step\n2: step\n");
  bench.folder.tick(at(602));
  CHECK(bench.shown() == "[1-2] the same 3 lines as rank 0: ModuleNotFoundError: torch\n");
}

TEST_CASE(
    "a traceback that a single rank repeats, however late in the moment, is one line from three ranks on") {
  Bench bench(4);
  std::string shown;
  for (int i = 0; i < 4; ++i) {
    bench.folder.add(i, k_error, at(i * 2000));
    bench.folder.tick(at(i * 2000 + 110));
    bench.folder.tick(at(i * 2000 + 700));
    shown += bench.shown();
  }
  CHECK(shown == std::string("0: ") + k_error +
                     "[1] the same 3 lines as rank 0: ModuleNotFoundError: torch\n"
                     "[2] the same 3 lines as rank 0: ModuleNotFoundError: torch\n"
                     "[3] the same 3 lines as rank 0: ModuleNotFoundError: torch\n");
  Bench two(2);
  for (int i = 0; i < 2; ++i) two.folder.add(i, k_error, at(i));
  for (const int ms : {110, 700}) two.folder.tick(at(ms));
  CHECK(two.shown() == std::string("0: ") + k_error + "1: " + k_error);
}

TEST_CASE("a traceback that a loaded machine writes with pauses is one block, whoever is ahead") {
  const bool first_is_slow = GENERATE(false, true);
  Bench bench(4);
  const std::string text = k_error;
  const std::size_t cut = text.find("Module");
  std::string shown;
  const auto until = [&](int end) {
    for (auto next = bench.folder.next_tick(); next && *next <= at(end); next = bench.folder.next_tick())
      bench.folder.tick(*next);
    shown += bench.shown();
  };
  bench.folder.add(0, first_is_slow ? text.substr(0, cut) : text, at(0));
  for (int i = 1; i < 4; ++i) bench.folder.add(i, first_is_slow ? text : text.substr(0, cut), at(10 * i));
  until(900);
  for (int i = 0; i < 4; ++i) {
    if ((i == 0) == first_is_slow) bench.folder.add(i, text.substr(cut), at(900 + i));
  }
  until(3000);
  CHECK(shown == "0: " + text.substr(0, first_is_slow ? cut : text.size()) +
                     (first_is_slow ? "0: " + text.substr(cut) : "") +
                     "[1-3] the same 3 lines as rank 0: ModuleNotFoundError: torch\n");
}

TEST_CASE("a traceback whose first writer ended in the middle of it is shown whole by the next one") {
  const std::string text = k_error;
  Bench bench(4);
  bench.folder.add(0, text.substr(0, text.find("Module")), at(0));
  bench.folder.add(1, text, at(10));
  bench.folder.close(1, at(20));
  CHECK(bench.shown() == "0: " + text.substr(0, text.find("Module")));
  CHECK(bench.folder.has(1));
  bench.folder.close(0, at(30));
  while (const auto next = bench.folder.next_tick()) bench.folder.tick(*next);
  CHECK(bench.shown() == "1: " + text);
  CHECK_FALSE(bench.folder.has(1));
}

TEST_CASE("a stream that ends while its copy waits ends after it") {
  Bench bench(4);
  for (int i = 0; i < 3; ++i) bench.folder.add(i, "same\n", at(i));
  for (int i = 0; i < 3; ++i) bench.folder.close(i, at(10));
  CHECK(bench.shown() == "0: same\n");
  CHECK(bench.folder.has(1));
  bench.folder.tick(at(510));
  CHECK(bench.shown() == "[1-2] the same as rank 0: same\n");
  CHECK_FALSE(bench.folder.has(1));
}

TEST_CASE("ranks that come later are copies too, for a while") {
  Bench bench(6);
  for (int i = 0; i < 3; ++i) bench.folder.add(i, "same\n", at(i));
  bench.folder.tick(at(102));
  bench.folder.tick(at(602));
  CHECK(bench.shown() == "0: same\n[1-2] the same as rank 0: same\n");
  bench.folder.add(3, "same\n", at(1500));
  bench.folder.tick(at(1600));
  bench.folder.tick(at(2100));
  CHECK(bench.shown() == "[3] the same as rank 0: same\n");
  bench.folder.add(4, "same\n", at(10500));
  CHECK(bench.shown() == "4: same\n");
}

TEST_CASE("no moment is waited for when no stream is left") {
  Bench bench(5);
  for (int i = 0; i < 4; ++i) bench.folder.add(i, "same\n", at(i));
  for (int i = 0; i < 5; ++i) bench.folder.close(i, at(10));
  CHECK(bench.shown() == "0: same\n[1-3] the same as rank 0: same\n");
}

// Every line comes out once, alone or as a copy, whatever the order of writing and of ticks.
TEST_CASE("tracebacks of several hosts are one, by the mark of a rank or by the host") {
  CopyFolder folder;
  for (int i = 0; i < 3; ++i) folder.open_host(i, fmt::format("n{}", i + 1));
  Bench bench(0);
  const auto shown = [&] {
    std::swap(bench.folder, folder);
    std::string text = bench.shown();
    std::swap(bench.folder, folder);
    return text;
  };
  SECTION("no mark") {
    folder.add(0, std::string(k_error) + "ddprun: rank 0 failed\n", at(0));
    for (int i = 1; i < 3; ++i) folder.add(i, k_error, at(i));
    for (const int ms : {110, 700}) folder.tick(at(ms));
    CHECK(shown() == fmt::format("0: {}0: ddprun: rank 0 failed\n[n2, n3] the same 3 lines as n1: "
                                 "ModuleNotFoundError: torch\n",
                                 k_error));
  }
  SECTION("marks, and two ranks of each host") {
    const auto marked = [](int rank) {
      return fmt::format("[rank{0}]: Traceback (most recent call last):\n[rank{0}]: E\n", rank);
    };
    folder.add(0, marked(0), at(0));
    for (int i = 1; i < 3; ++i) folder.add(i, marked(2 * i) + marked(2 * i + 1), at(i));
    for (const int ms : {110, 700}) folder.tick(at(ms));
    CHECK(shown() == "0: " + marked(0) + "[2-5] the same 2 lines as rank 0: E\n");
  }
  SECTION("what is no traceback is never held") {
    for (int i = 0; i < 3; ++i) folder.add(i, "same\n", at(i));
    CHECK(shown() == "0: same\n1: same\n2: same\n");
    CHECK_FALSE(folder.next_tick());
  }
}

TEST_CASE("nothing is lost and nothing is shown twice") {
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
  for (int round = 0; round < test::rounds(60); ++round) {
    Bench bench(round % 3 == 2 ? 0 : 4, round % 3 == 0 ? Blocks::all : Blocks::tracebacks);
    for (int i = 0; round % 3 == 2 && i < 4; ++i) bench.folder.open_host(i, fmt::format("n{}", i));
    int written = 0;
    int seen = 0;
    const auto count = [&] {
      for (const auto& piece : bench.folder.take()) {
        const auto lines = static_cast<int>(std::count(piece.text.begin(), piece.text.end(), '\n'));
        seen += lines * std::max(1, static_cast<int>(piece.ranks.size() + piece.hosts.size()));
      }
    };
    int ms = 0;
    for (int step = 0; step < 60; ++step) {
      ms += below(120);
      const char* const texts[] = {"a\n",    "b\n",  "Traceback (most recent call last):\n",
                                   "c\nd\n", "\r\n", "[rank1]: Traceback (most recent call last):\n"};
      const std::string text = texts[below(6)];
      written += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
      bench.folder.add(below(4), text, at(ms));
      if (below(2) == 0) bench.folder.tick(at(ms + 1));
      count();
    }
    for (int i = 0; i < 4; ++i) bench.folder.close(i, at(ms));
    while (const auto next = bench.folder.next_tick()) bench.folder.tick(*next);
    count();
    REQUIRE(seen == written);
  }
}
