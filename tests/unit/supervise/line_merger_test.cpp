#include "ddprun/supervise/line_merger.hpp"

#include <random>

#include "catch.hpp"

using ddprun::LineMerger;
using ddprun::Milliseconds;
using ddprun::StreamId;
using ddprun::TimePoint;
using Lines = std::vector<std::string>;

namespace {

constexpr TimePoint k_start{};
constexpr TimePoint k_later = k_start + std::chrono::hours(1);

LineMerger::Settings short_lines() {
  LineMerger::Settings settings;
  settings.long_line = 8;
  return settings;
}

}  // namespace

TEST_CASE("lines of two streams come out whole, in the order in which they end") {
  LineMerger merger;
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "hel", k_start);
  CHECK(merger.take_output().empty());
  merger.add(b, "first\nsec", k_start);
  merger.add(a, "lo\n", k_start);
  merger.add(b, "ond\n", k_start);
  CHECK(merger.take_output() == "first\nhello\nsecond\n");
  CHECK_FALSE(merger.next_tick());
}

TEST_CASE("a carriage return ends a piece, so that progress bars stay alive") {
  LineMerger merger;
  const StreamId a = merger.open();
  merger.add(a, "\r 10%", k_start);
  CHECK(merger.take_output() == "\r");
  merger.add(a, "\r 20%", k_start);
  CHECK(merger.take_output() == " 10%\r");
}

TEST_CASE("an unfinished last line is kept as it is, and set apart only if something follows") {
  LineMerger merger;
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "no end", k_start);
  merger.close(a, k_start);
  CHECK(merger.take_output() == "no end");
  SECTION("nothing follows") {
    merger.close(b, k_start);
    CHECK(merger.take_output().empty());
  }
  SECTION("another stream follows") {
    merger.add(b, "next\n", k_start);
    CHECK(merger.take_output() == "\nnext\n");
  }
  SECTION("the launcher follows") {
    merger.insert("ddprun: said\n");
    CHECK(merger.take_output() == "\nddprun: said\n");
  }
}

TEST_CASE("an overlong line is passed on in portions, and the others wait for its end") {
  LineMerger merger(short_lines());
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "aaaaaaaaaaaa", k_start);
  merger.add(b, "b\n", k_start);
  CHECK(merger.take_output() == "aaaaaaaaaaaa");
  REQUIRE(merger.next_tick());
  SECTION("it ends") {
    merger.add(a, "AA\n", k_start);
    CHECK(merger.take_output() == "AA\nb\n");
  }
  SECTION("its stream closes") {
    merger.close(a, k_start);
    CHECK(merger.take_output() == "\nb\n");
  }
  SECTION("it goes on") {
    merger.add(a, "aaaaaaaaaa", *merger.next_tick() - Milliseconds(1));
    CHECK(merger.take_output() == "aaaaaaaaaa");
    merger.tick(*merger.next_tick() - Milliseconds(1));
    CHECK(merger.take_output().empty());
  }
  SECTION("it is never continued: the others' patience ends") {
    merger.tick(*merger.next_tick());
    CHECK(merger.take_output() == "\nb\n");
    merger.add(a, "AA\n", k_later);
    CHECK(merger.take_output() == "AA\n");
  }
  SECTION("dots that trickle do not keep it reserved") {
    const TimePoint patience = *merger.next_tick();
    merger.add(a, ".", patience - Milliseconds(1));
    merger.tick(patience);
    CHECK(merger.take_output() == "\nb\n");
  }
}

TEST_CASE("a stream that waits for another keeps only a little here") {
  LineMerger merger(short_lines());
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "aaaaaaaaaaaa", k_start);
  CHECK(merger.has_room(b));
  merger.add(b, "b b b b b b b b \n", k_start);
  CHECK_FALSE(merger.has_room(b));
  merger.add(a, "\n", k_start);
  CHECK(merger.has_room(b));
}

TEST_CASE("a prompt of an interactive stream is shown after a moment") {
  LineMerger merger;
  const StreamId a = merger.open(true);
  const StreamId b = merger.open();
  merger.add(b, "half", k_start);
  merger.add(a, "(Pdb) ", k_start);
  CHECK(merger.take_output().empty());
  REQUIRE(merger.next_tick());
  merger.tick(*merger.next_tick());
  CHECK(merger.take_output() == "(Pdb) ");
  CHECK_FALSE(merger.next_tick());
  SECTION("and its line goes on where it stopped") {
    merger.add(a, "ok\n", k_later);
    CHECK(merger.take_output() == "ok\n");
  }
  SECTION("and others do not wait for it") {
    merger.add(b, " a line\n", k_later);
    CHECK(merger.take_output() == "\nhalf a line\n");
  }
}

TEST_CASE("the last lines of a stream are remembered until it is forgotten") {
  LineMerger::Settings settings;
  settings.remembered_lines = 2;
  LineMerger merger(settings);
  const StreamId a = merger.open();
  merger.add(a, "1\n2\n3\nTraceback", k_start);
  merger.close(a, k_start);
  CHECK(merger.last_lines(a) == Lines{"3", "Traceback"});
  merger.forget(a);
  CHECK(merger.take_output() == "1\n2\n3\nTraceback");
}

TEST_CASE("whatever the order and the pieces, every stream's bytes come out once and in order") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  LineMerger merger(short_lines());
  std::vector<StreamId> streams;
  Lines written(3);
  for (int i = 0; i < 3; ++i) streams.push_back(merger.open(i == 0));
  TimePoint now = k_start;
  for (int step = 0; step < 2000; ++step) {
    const auto stream = static_cast<std::size_t>(below(3));
    // Each stream has letters of its own; '\n' is nobody's, since the merger may add it.
    std::string text(static_cast<std::size_t>(below(12)), static_cast<char>('a' + stream));
    if (below(2) == 0) text += static_cast<char>('A' + stream);
    written[stream] += text;
    if (below(2) == 0) text += '\n';
    now += Milliseconds(below(300));
    merger.add(streams[stream], text, now);
    merger.tick(now);
  }
  for (const StreamId stream : streams) merger.close(stream, now);
  const std::string all = merger.take_output();
  for (std::size_t i = 0; i < 3; ++i) {
    std::string own;
    for (const char c : all) {
      if (c == static_cast<char>('a' + i) || c == static_cast<char>('A' + i)) own += c;
    }
    CHECK(own == written[i]);
  }
  // No two streams on one line.
  CHECK(all.find_first_of("aA") != std::string::npos);
  for (std::size_t at = 1; at < all.size(); ++at) {
    if (all[at] != '\n' && all[at - 1] != '\n') REQUIRE((all[at] | 0x20) == (all[at - 1] | 0x20));
  }
}
