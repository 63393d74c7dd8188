#include "output/line_merger.hpp"

#include "catch.hpp"

using ddprun::Milliseconds;
using ddprun::TimePoint;
using ddprun::output::LineMerger;
using ddprun::output::StreamId;
using Lines = std::vector<std::string>;

namespace {

constexpr TimePoint k_start{};
constexpr TimePoint k_later = k_start + std::chrono::hours(1);

LineMerger::Settings short_lines() {
  LineMerger::Settings settings;
  settings.long_line = 8;
  return settings;
}

std::string take_all(LineMerger& merger) {
  const std::string all(merger.output());
  merger.take(all.size(), k_start);
  return all;
}

}  // namespace

TEST_CASE("on a terminal a frame of a progress bar is erased by whoever writes next, and cut at the width") {
  LineMerger::Settings settings;
  settings.terminal = true;
  LineMerger merger(settings);
  const TimePoint start{};
  const auto shown = [&] {
    std::string text(merger.output());
    merger.take(text.size(), start);
    return text;
  };
  const StreamId one = merger.open(/*interactive=*/true);
  const StreamId other = merger.open();
  merger.add(one, "\r 10%", start);
  merger.tick(start + settings.idle);  // tqdm writes '\r' before a frame, not after it
  CHECK(shown() == "\x1b[?7l\r\x1b[?7h\x1b[?7l 10%\x1b[?7h");
  merger.add(other, "\r 20%\r", start);
  CHECK(shown() == "\r\x1b[K\x1b[?7l\r 20%\r\x1b[?7h");
  merger.add(one, "\r100%\n", start);
  CHECK(shown() == "\r\x1b[K\x1b[?7l\r\x1b[?7h100%\n");
  merger.insert("ddprun: a line\n", start);
  CHECK(shown() == "ddprun: a line\n");
  merger.add(other, "a line\n\r 30%\r", start);
  CHECK(shown() == "a line\n\x1b[?7l\r 30%\r\x1b[?7h");
  merger.add(one, "\r 40%", start);  // the '\r' comes out at once, the rest when it is quiet
  merger.add(other, "\r 50%\r", start);
  merger.tick(start + settings.idle);
  CHECK(shown().ends_with("\r\x1b[K\x1b[?7l 40%\x1b[?7h"));
  merger.insert("ddprun: another\n", start);
  CHECK(shown() == "\r\x1b[Kddprun: another\n");
}

TEST_CASE("on a terminal a prompt that others interrupt stays") {
  LineMerger::Settings settings;
  settings.terminal = true;
  LineMerger merger(settings);
  const StreamId one = merger.open(/*interactive=*/true);
  const StreamId other = merger.open();
  merger.add(one, "name: ", TimePoint{});
  merger.tick(TimePoint{} + settings.idle);
  merger.add(other, "a line\n", TimePoint{} + settings.idle);
  CHECK(merger.output() == "name: \na line\n");
}

TEST_CASE("lines of two streams come out whole, in the order in which they end") {
  LineMerger merger;
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "hel", k_start);
  CHECK(take_all(merger).empty());
  merger.add(b, "first\nsec", k_start);
  merger.add(a, "lo\n", k_start);
  merger.add(b, "ond\n", k_start);
  CHECK(take_all(merger) == "first\nhello\nsecond\n");
  CHECK_FALSE(merger.next_tick());
}

TEST_CASE("a carriage return ends a piece, so that progress bars stay alive") {
  LineMerger merger;
  const StreamId a = merger.open();
  merger.add(a, "\r 10%", k_start);
  CHECK(take_all(merger) == "\r");
  merger.add(a, "\r 20%", k_start);
  CHECK(take_all(merger) == " 10%\r");
}

TEST_CASE("an unfinished last line is kept as it is, and set apart only if something follows") {
  LineMerger merger;
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "no end", k_start);
  merger.close(a, k_start);
  CHECK(take_all(merger) == "no end");
  SECTION("nothing follows") {
    merger.close(b, k_start);
    CHECK(take_all(merger).empty());
  }
  SECTION("another stream follows") {
    merger.add(b, "next\n", k_start);
    CHECK(take_all(merger) == "\nnext\n");
  }
  SECTION("the launcher follows") {
    merger.insert("ddprun: said\n", k_start);
    CHECK(take_all(merger) == "\nddprun: said\n");
  }
}

TEST_CASE("an overlong line is passed on in portions, and the others wait for its end") {
  LineMerger merger(short_lines());
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "aaaaaaaaaaaa", k_start);
  merger.add(b, "b\n", k_start);
  CHECK(take_all(merger) == "aaaaaaaaaaaa");
  REQUIRE(merger.next_tick());
  SECTION("it ends") {
    merger.add(a, "AA\n", k_start);
    CHECK(take_all(merger) == "AA\nb\n");
  }
  SECTION("its stream closes") {
    merger.close(a, k_start);
    CHECK(take_all(merger) == "\nb\n");
  }
  SECTION("it goes on") {
    merger.add(a, "aaaaaaaaaa", *merger.next_tick() - Milliseconds(1));
    CHECK(take_all(merger) == "aaaaaaaaaa");
    merger.tick(*merger.next_tick() - Milliseconds(1));
    CHECK(take_all(merger).empty());
  }
  SECTION("it is never continued: the others' patience ends") {
    merger.tick(*merger.next_tick());
    CHECK(take_all(merger) == "\nb\n");
    merger.add(a, "AA\n", k_later);
    CHECK(take_all(merger) == "AA\n");
  }
  SECTION("dots that trickle do not keep it reserved") {
    const TimePoint patience = *merger.next_tick();
    merger.add(a, ".", patience - Milliseconds(1));
    merger.tick(patience);
    CHECK(take_all(merger) == "\nb\n");
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
  CHECK(take_all(merger).empty());
  REQUIRE(merger.next_tick());
  merger.tick(*merger.next_tick());
  CHECK(take_all(merger) == "(Pdb) ");
  CHECK_FALSE(merger.next_tick());
  SECTION("and its line goes on where it stopped") {
    merger.add(a, "ok\n", k_later);
    CHECK(take_all(merger) == "ok\n");
  }
  SECTION("and others do not wait for it") {
    merger.add(b, " a line\n", k_later);
    CHECK(take_all(merger) == "\nhalf a line\n");
  }
}

TEST_CASE("who waits for another's line goes on when the launcher has ended it") {
  LineMerger merger(short_lines());
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "aaaaaaaaaaaa", k_start);
  merger.add(b, "b\n", k_start);
  merger.insert("ddprun: said\n", k_start);
  CHECK(take_all(merger) == "aaaaaaaaaaaa\nddprun: said\nb\n");
  CHECK_FALSE(merger.next_tick());
}

TEST_CASE("a stream that ends while it waits is passed on when the line it waits for has ended") {
  LineMerger merger(short_lines());
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "aaaaaaaaaaaa", k_start);
  merger.add(b, "b\nlast", k_start);
  merger.close(b, k_start);
  CHECK(take_all(merger) == "aaaaaaaaaaaa");
  CHECK(merger.streams() == 2);
  merger.add(a, "AA\n", k_start);
  CHECK(take_all(merger) == "AA\nb\nlast");
  CHECK(merger.streams() == 1);
}

TEST_CASE("those that wait come in the order in which they began to wait") {
  LineMerger merger(short_lines());
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  const StreamId c = merger.open();
  merger.add(b, "bbbbbbbbbbbb", k_start);
  merger.add(c, "cccccccccccc", k_start);
  merger.add(a, "aaaaaaaaaaaa", k_start);
  merger.add(b, "\n", k_start);
  merger.add(c, "\n", k_start);
  merger.add(a, "\n", k_start);
  CHECK(take_all(merger) == "bbbbbbbbbbbb\ncccccccccccc\naaaaaaaaaaaa\n");
}

TEST_CASE(
    "a prompt that has to wait for another's line is shown when that wait ends, and not looked at before") {
  LineMerger merger(short_lines());
  const StreamId a = merger.open(true);
  const StreamId b = merger.open();
  merger.add(b, "bbbbbbbbbbbb", k_start);
  merger.add(a, "> ", k_start);
  REQUIRE(merger.next_tick());
  CHECK(*merger.next_tick() == k_start + Milliseconds(1000));
  merger.tick(*merger.next_tick());
  CHECK(take_all(merger) == "bbbbbbbbbbbb\n> ");
  CHECK_FALSE(merger.next_tick());
}

TEST_CASE("no stream is read beyond the backlog, and no patience is lost until it was taken") {
  LineMerger::Settings settings = short_lines();
  settings.backlog = 12;
  LineMerger merger(settings);
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "aaaaaaaaaaaa", k_start);
  merger.add(b, "b\n", k_start);
  CHECK_FALSE(merger.has_room(a));
  CHECK_FALSE(merger.has_room(b));
  CHECK_FALSE(merger.next_tick());
  merger.take(1, k_later);
  CHECK(merger.has_room(a));
  CHECK(merger.next_tick() == k_later + Milliseconds(1000));
  merger.add(a, "AA\n", k_later);
  CHECK(take_all(merger) == "aaaaaaaaaaaAA\nb\n");
}

TEST_CASE("the others do not wait for a line that never ends, however fast it goes on") {
  LineMerger::Settings settings = short_lines();
  settings.longest_line = 64;
  LineMerger merger(settings);
  const StreamId a = merger.open();
  const StreamId b = merger.open();
  merger.add(a, "aaaaaaaaaaaa", k_start);
  merger.add(b, "b\n", k_start);
  for (TimePoint now = k_start; now < k_start + Milliseconds(3000); now += Milliseconds(100)) {
    merger.add(a, "aaaaaaaaaaaa", now);
  }
  CHECK(take_all(merger).find("a\nb\na") != std::string::npos);
}

TEST_CASE("a stream that has ended is forgotten") {
  LineMerger merger;
  for (int i = 0; i < 3; ++i) {
    const StreamId stream = merger.open();
    merger.add(stream, "no end", k_start);
    CHECK(merger.streams() == 1);
    merger.close(stream, k_start);
    CHECK(merger.streams() == 0);
    CHECK_FALSE(merger.has_room(stream));
  }
  CHECK(take_all(merger) == "no end\nno end\nno end");
}
