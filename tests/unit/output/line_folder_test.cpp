#include "output/line_folder.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "catch.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::output;

namespace {

TimePoint at(int ms) { return TimePoint{} + std::chrono::seconds(100) + Milliseconds{ms}; }

struct Bench {
  LineFolder folder;
  explicit Bench(int streams) {
    for (int i = 0; i < streams; ++i) folder.open(i, GlobalRank{i});
  }
  // "[0-3] text" for what was folded, "2: text" for what was not.
  std::string shown() {
    std::string text;
    for (const auto& piece : folder.take()) {
      if (piece.ended) continue;
      text += piece.ranks.empty() ? fmt::format("{}: ", piece.stream)
                                  : fmt::format("[{}] ", describe_rank_list(piece.ranks));
      text += piece.text;
    }
    return text;
  }
};

}  // namespace

TEST_CASE("the same block of all ranks is shown once, without waiting") {
  Bench bench(4);
  for (int i = 0; i < 4; ++i) bench.folder.add(i, "Traceback\n  x\nModuleNotFoundError: torch\n", at(i * 10));
  bench.folder.tick(at(100));
  CHECK(bench.shown() == "");
  bench.folder.tick(at(130));
  CHECK(bench.shown() == "[0-3] Traceback\n  x\nModuleNotFoundError: torch\n");
  CHECK_FALSE(bench.folder.next_tick());
}

TEST_CASE("the same block of some ranks is shown once after a moment") {
  Bench bench(8);
  for (const int i : {1, 3, 4}) bench.folder.add(i, "same\n", at(0));
  bench.folder.add(6, "other\n", at(0));
  bench.folder.tick(at(100));
  CHECK(bench.folder.next_tick() == at(400));
  bench.folder.tick(at(400));
  CHECK(bench.shown() == "[1, 3-4] same\n6: other\n");
}

TEST_CASE("two ranks with one text are shown as they are") {
  Bench bench(2);
  bench.folder.add(0, "same\n", at(0));
  bench.folder.add(1, "same\n", at(0));
  bench.folder.tick(at(100));
  CHECK(bench.shown() == "0: same\n1: same\n");
}

TEST_CASE("torch's mark of a rank does not make blocks differ") {
  Bench bench(3);
  for (int i = 0; i < 3; ++i)
    bench.folder.add(i, fmt::format("[rank{0}]: Traceback\n[rank{0}]: Error\n", i), at(0));
  bench.folder.tick(at(100));
  CHECK(bench.shown() == "[0-2] Traceback\nError\n");
}

TEST_CASE("a progress bar and a prompt are not held") {
  Bench bench(3);
  bench.folder.add(0, "starting\n", at(0));
  bench.folder.tick(at(100));
  bench.folder.add(0, "\r 10%", at(110));
  CHECK(bench.shown() == "0: starting\n0: \r 10%");
  bench.folder.add(1, "name? ", at(200));
  bench.folder.tick(at(300));
  CHECK(bench.shown() == "1: name? ");
}

TEST_CASE("a rank that never pauses is shown after a moment") {
  Bench bench(3);
  for (int ms = 0; ms <= 250; ms += 50) {
    bench.folder.add(0, fmt::format("{}\n", ms), at(ms));
    bench.folder.tick(at(ms));
  }
  CHECK(bench.folder.next_tick() == at(300));
  bench.folder.tick(at(300));
  bench.folder.tick(at(600));
  CHECK(bench.shown() == "0: 0\n50\n100\n150\n200\n250\n");
}

TEST_CASE("a stream that has ended says so after all of its text") {
  Bench bench(2);
  bench.folder.add(0, "last", at(0));
  bench.folder.close(0, at(0));
  CHECK(bench.folder.take().empty());
  bench.folder.tick(at(300));
  const auto pieces = bench.folder.take();
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0].text == "last");
  CHECK(pieces[1].ended);
}

TEST_CASE("no byte is lost, torn or moved, whatever is folded") {
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < test::rounds(50); ++round) {
    constexpr int k_streams = 5;
    LineFolder folder(LineFolder::Settings{Milliseconds{20}, Milliseconds{60}, 40, 3});
    std::string written[k_streams];
    std::string shown[k_streams];
    bool ended[k_streams] = {};
    bool silent_afterwards = true;
    for (int i = 0; i < k_streams; ++i) folder.open(i, GlobalRank{i});
    const auto collect = [&] {
      for (const auto& piece : folder.take()) {
        if (piece.ended) {
          ended[piece.stream] = true;
        } else if (piece.ranks.empty()) {
          silent_afterwards = silent_afterwards && !ended[piece.stream];
          shown[piece.stream] += piece.text;
        } else {
          for (const int rank : piece.ranks) shown[rank] += piece.text;
        }
      }
    };
    int now = 0;
    const char* const texts[] = {"a\n", "b\n", "a\nb\n", "c",
                                 "\n",  "\r",  "d\r\n",  "a longer line than others\n"};
    for (int step = 0; step < 200; ++step) {
      now += static_cast<int>(random() % 15);
      const auto due = folder.next_tick();
      if (due && *due <= at(now)) folder.tick(at(now));
      const auto stream = static_cast<int>(random() % k_streams);
      const std::string text = texts[random() % std::size(texts)];
      written[stream] += text;
      folder.add(stream, text, at(now));
      collect();
    }
    for (int i = 0; i < k_streams; ++i) folder.close(i, at(now));
    while (const auto due = folder.next_tick()) folder.tick(*due);
    collect();
    REQUIRE(silent_afterwards);
    for (int i = 0; i < k_streams; ++i) {
      CHECK(shown[i] == written[i]);
      CHECK(ended[i]);
    }
  }
}
