#include "base/text.hpp"

#include "catch.hpp"

using namespace ddprun;

TEST_CASE("splitting keeps empty pieces and words drop them") {
  CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string>{""});
  CHECK(split_words(" a\t b\n") == std::vector<std::string>{"a", "b"});
  CHECK(split_words("  ").empty());
}

TEST_CASE("a number is the whole text or nothing") {
  CHECK(parse_integer("-5") == -5);
  CHECK(parse_integer("4294967290") == 4294967290);
  for (const char* text : {"", " 1", "1 ", "+1", "0x1", "1.0", "99999999999999999999", "-"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_integer(text));
  }
}

TEST_CASE("quoted words survive a shell") {
  CHECK(shell_quote("train.py") == "train.py");
  CHECK(shell_quote("") == "''");
  CHECK(shell_quote("a b") == "'a b'");
  CHECK(shell_quote("it's") == "'it'\\''s'");
}

TEST_CASE("a misspelt word finds its local peer and a stranger none") {
  const std::vector<std::string> options{"nnodes", "nproc-per-node", "node-rank"};
  CHECK(closest_match("nnode", options) == "nnodes");
  CHECK(closest_match("nproc-pre-node", options) == "nproc-per-node");
  CHECK(closest_match("stroe", {"stage", "store", "tree"}) == "store");
  CHECK_FALSE(closest_match("zzz", options));
  CHECK_FALSE(closest_match("", options));
}

TEST_CASE("hosts are compared by short name without case") {
  CHECK(same_host("N3.cluster.example", "n3"));
  CHECK_FALSE(same_host("n3", "n30"));
  CHECK(short_host_name("10.0.0.1") == "10.0.0.1");
}

TEST_CASE("only well-formed UTF-8 has a length") {
  CHECK(utf8_length("a") == 1);
  CHECK(utf8_length("\xc3\xbc") == 2);
  CHECK(utf8_length("\xe2\x82\xac!") == 3);
  CHECK(utf8_length("\xf0\x9f\x98\x80") == 4);
  for (const char* bad : {"", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\xaf",
                          "\xf4\x90\x80\x80", "\xff", "\xc3", "\xe2\x82"}) {
    CAPTURE(bad);
    CHECK(utf8_length(bad) == 0);
  }
}

TEST_CASE("of lines from a stranger only the ends are obeyed") {
  CHECK(printable_lines("n1\n\x1b[2Jn2\r\n\xc2\x9bq\n") == "n1\n\\x1b[2Jn2\\x0d\n\\xc2\\x9bq\n");
  CHECK(printable_lines(std::string(500, 'x')) == std::string(500, 'x'));
}

TEST_CASE("a stranger's text cannot turn the order in which it is shown") {
  for (const char* turned : {"\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xaa", "\xe2\x80\xab",
                             "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa7",
                             "\xe2\x81\xa8", "\xe2\x81\xa9", "\xd8\x9c"}) {
    const std::string shown = printable(std::string("a") + turned + "b");
    CAPTURE(shown);
    CHECK(shown.starts_with("a\\x"));
    CHECK(shown.find(turned) == std::string::npos);
  }
  CHECK(printable("exe.\xe2\x80\xaegpj") == "exe.\\xe2\\x80\\xaegpj");
  for (const char* kept : {"\xe2\x80\x8d", "\xe2\x80\x93", "\xe2\x81\xa0", "\xd8\xa7"})
    CHECK(printable(kept) == kept);
}

TEST_CASE("a stranger's text cannot drive the terminal") {
  CHECK(printable("a\x1b[2Jb") == "a\\x1b[2Jb");
  CHECK(printable("gr\xc3\xbc\xc3\x9f") == "gr\xc3\xbc\xc3\x9f");
  CHECK(printable("a\xc2\x9b"
                  "2J\xc2\xa0") == "a\\xc2\\x9b2J\xc2\xa0");
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("abcdef", 3) == "abc...");
}
