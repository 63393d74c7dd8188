#include "output/line_limits.hpp"

#include "catch.hpp"

using ddprun::output::LineTail;
using Lines = std::vector<std::string>;

TEST_CASE("the tail is the last lines and the unfinished one") {
  LineTail tail(3);
  tail.add("one\ntwo\n");
  CHECK(tail.lines() == Lines{"one", "two"});
  tail.add("three\nfou");
  CHECK(tail.lines() == Lines{"two", "three", "fou"});
  tail.add("r\n");
  CHECK(tail.lines() == Lines{"two", "three", "four"});
}

TEST_CASE("the tail shows a progress bar's last state") {
  LineTail tail;
  tail.add("start\r\n 10%\r 20%");
  CHECK(tail.lines() == Lines{"start", " 20%"});
  tail.add("\r");
  CHECK(tail.lines() == Lines{"start", " 20%"});
  tail.add("done\n");
  CHECK(tail.lines() == Lines{"start", "done"});
}

TEST_CASE("the tail of a flood in one piece is its end") {
  LineTail tail(2);
  tail.add("begun");
  std::string flood;
  for (int line = 0; line < 1000; ++line) flood += std::to_string(line) + "\n";
  tail.add(flood);
  CHECK(tail.lines() == Lines{"998", "999"});
}

TEST_CASE("the tail keeps the beginning of an overlong line") {
  LineTail tail;
  tail.add("x" + std::string(5000, 'y'));
  tail.add("z\nnext\n");
  CHECK(tail.lines() == Lines{"x" + std::string(LineTail::k_line_length - 1, 'y'), "next"});
}
