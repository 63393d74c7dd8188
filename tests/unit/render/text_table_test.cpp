#include "render/text_table.hpp"

#include "base/text.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::render;

namespace {

std::string table_of(std::string_view name, std::string_view value, std::string_view origin) {
  TextTable table;
  table.heading("h", 8, 20);
  table.row(name, value, origin);
  return table.text();
}

}  // namespace

TEST_CASE("a row is a name, a value and an origin in columns") {
  CHECK(table_of("job", "29", "SLURM_JOB_ID") == "h\n  job      29                   SLURM_JOB_ID\n");
  CHECK(table_of("job", "29", "") == "h\n  job      29\n");
}

TEST_CASE("what does not fit moves to lines of its own, in its column") {
  CHECK(table_of("job", "a value past its column", "an origin") ==
        "h\n  job      a value past its column\n           <- an origin\n");
  CHECK(table_of("A_LONG_NAME", "29", "here") == "h\n  A_LONG_NAME\n           29                   here\n");
  const std::string origin = "a " + std::string(60, 'x') + " b " + std::string(60, 'y');
  CHECK(table_of("n", "v", origin) == "h\n  n        v                    a " + std::string(60, 'x') +
                                          " b\n" + std::string(32, ' ') + std::string(60, 'y') + "\n");
}

TEST_CASE("no line is wider than 100 columns, whatever the text") {
  const std::string wide(500, 'x');
  std::string umlauts;
  for (int i = 0; i < 300; ++i) umlauts += "\xc3\xa4";
  for (const std::string& text : {wide, umlauts, std::string(5000, ' ') + "x", "a " + wide + " b"}) {
    for (const std::string& line : split(table_of(text, text, text), '\n')) {
      CHECK(utf8_length(line.empty() ? "x" : line) > 0);  // never cut inside a character
      CHECK(line.size() <= 200);
      if (text != umlauts) CHECK(line.size() <= 100);
    }
  }
}

TEST_CASE("control bytes do not reach the terminal") {
  CHECK(table_of("n\x1b", "a\nb", "c\rd") == "h\n  n\\x1b    a\\x0ab               c\\x0dd\n");
}
