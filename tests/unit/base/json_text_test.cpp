#include "base/json_text.hpp"

#include <nlohmann/json.hpp>

#include "catch.hpp"

using namespace ddprun;

TEST_CASE("what is not JSON is a discarded value, and nothing is thrown") {
  for (const char* text : {"", "{", "[1", "{\"a\":1}x", "nul", "\"\xff\"", "1e999"}) {
    CAPTURE(text);
    CHECK(read_json_text(text).is_discarded());
    CHECK(read_ordered_json_text(text).is_discarded());
  }
}

TEST_CASE("JSON is the same after it is written and read, and an ordered one keeps its order") {
  const std::string text = R"({"b":[1,-2.5,null,true],"a":{"c":"\u00fc\n"}})";
  const nlohmann::json json = read_json_text(text);
  CHECK(read_json_text(write_json_text(json)) == json);
  CHECK(write_json_text(json) == "{\"a\":{\"c\":\"\xc3\xbc\\n\"},\"b\":[1,-2.5,null,true]}");
  CHECK(write_json_text(read_ordered_json_text(text)) ==
        "{\"b\":[1,-2.5,null,true],\"a\":{\"c\":\"\xc3\xbc\\n\"}}");
  CHECK(write_json_text(read_json_text("[1]"), 2) == "[\n  1\n]");
}

TEST_CASE("text that is not UTF-8 is written with a replacement character") {
  CHECK(write_json_text(nlohmann::json("a\xff"
                                       "b")) ==
        "\"a\xef\xbf\xbd"
        "b\"");
  CHECK(write_json_text(nlohmann::ordered_json("a\xff"
                                               "b")) ==
        "\"a\xef\xbf\xbd"
        "b\"");
}
