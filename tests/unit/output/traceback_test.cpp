#include "output/traceback.hpp"

#include <fmt/format.h>

#include "catch.hpp"

using namespace ddprun::output;

namespace {

// Returns "|" where a part begins anew, "+" where it only is another part.
std::string split(TracebackSplitter& splitter, std::string_view text) {
  std::string parts;
  for (const auto& part : splitter.split(text)) {
    parts += part.begins ? "|" : "+";
    if (part.rank) parts += fmt::format("{}:", *part.rank);
    parts += part.text;
  }
  return parts;
}

constexpr std::string_view k_begin = "Traceback (most recent call last):\n  x\n";

}  // namespace

TEST_CASE("a traceback ends before ddprun's lines, another rank's, and another traceback") {
  const std::string one = fmt::format("{}E: a\n", k_begin);
  for (const char* next :
       {"ddprun: rank 0 failed\n", "[1-3] the same 3 lines as rank 0: E: a\n", "[rank1]: Error\n"}) {
    TracebackSplitter splitter;
    CHECK(split(splitter, "epoch 1\n" + one + next + "[2] more\n") ==
          fmt::format("+epoch 1\n|{}|{}[2] more\n", one, next));
  }
  TracebackSplitter splitter;
  CHECK(split(splitter, one + one) == fmt::format("|{0}|{0}", one));
  CHECK(split(splitter, "more\n") == "+more\n");
}

TEST_CASE("a chained traceback is one, and so is one with marks and empty lines") {
  TracebackSplitter splitter;
  const std::string chained =
      fmt::format("{0}E: a\n\nDuring handling of the above exception:\n\n{0}E: b\n", k_begin);
  CHECK(split(splitter, chained) == "|" + chained);
  TracebackSplitter marked;
  const std::string first = "[rank3]: Traceback (most recent call last):\n[rank3]: E\n\n";
  const std::string more = "[rank3]: Traceback (most recent call last):\n[rank3]: F\n";
  CHECK(split(marked, first + more) == "|3:" + first + more);
  CHECK(split(marked, "[rank4]: Traceback (most recent call last):\n") ==
        "|4:[rank4]: Traceback (most recent call last):\n");
}

TEST_CASE("a traceback may come in pieces") {
  TracebackSplitter splitter;
  CHECK(split(splitter, "Traceback (most recent call last):\n  x") ==
        "|Traceback (most recent call last):\n  x");
  CHECK(split(splitter, "ddprun: no line of its own\nE\nddprun: a line\n") ==
        "+ddprun: no line of its own\nE\n|ddprun: a line\n");
}
