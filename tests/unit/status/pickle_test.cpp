#include "status/flight_record.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

// Without the protocol and the end.
std::string as_json(std::string_view inside) {
  const auto json = read_pickle("\x80\x02" + std::string(inside) + ".");
  return json.is_discarded() ? "discarded" : write_json_text(json);
}

using namespace std::string_view_literals;

}  // namespace

TEST_CASE("a pickle of plain values is read") {
  CHECK(as_json("N") == "null");
  CHECK(as_json("\x88") == "true");
  CHECK(as_json("\x89") == "false");
  CHECK(as_json("K\xff") == "255");
  CHECK(as_json("M\x01\x02") == "513");
  CHECK(as_json("J\xff\xff\xff\xff") == "-1");
  CHECK(as_json("\x8a\x00"sv) == "0");
  CHECK(as_json("\x8a\x01\xff") == "-1");
  CHECK(as_json("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f") == "9223372036854775807");
  CHECK(as_json("G\x3f\xf8\x00\x00\x00\x00\x00\x00"sv) == "1.5");
  CHECK(as_json("X\x02\x00\x00\x00hi"sv) == "\"hi\"");
  CHECK(as_json("](K\x01K\x02\x86Ne") == "[[1,2],null]");
  CHECK(as_json("}(X\x01\x00\x00\x00"sv
                "aK\x01X\x01\x00\x00\x00"sv
                "b]u") == R"({"a":1,"b":[]})");
}

TEST_CASE("a dictionary that a pickle repeats is read each time") {
  CHECK(as_json("](}(X\x01\x00\x00\x00"sv
                "aK\x01uq\x07h\x07r\x01\x01\x00\x00j\x01\x01\x00\x00"sv
                "e") == R"([{"a":1},{"a":1},{"a":1}])");
}

TEST_CASE("a pickle that names a function, and any that is not whole, is refused") {
  CHECK(as_json("cos\nsystem\n(X\x02\x00\x00\x00idtR"sv) == "discarded");
  for (const char* text : {"",      "K",      "X\x02", "(",     "NN",     "e",     "u",
                           "](",    "]e",     "}(Ku",  "}(Nu",  "}(NNu",  "h\x01", "q",
                           "q\x01", "(q\x01", "\x86",  "N\x86", "(N\x86", "]N(Ne", "\x8a\x09zzzzzzzzz",
                           "?",     "(h\x01"})
    CHECK(as_json(text) == "discarded");
  CHECK(read_pickle("\x80\x02N").is_discarded());
  CHECK(read_pickle("{}").is_discarded());
  CHECK(read_pickle("").is_discarded());
}

TEST_CASE("a pickle that nests without end, or that doubles itself, is refused") {
  std::string deep;
  for (std::size_t i = 0; i < 100'000; ++i) deep += "](";
  deep += "N";
  for (std::size_t i = 0; i < 100'000; ++i) deep += "e";
  CHECK(as_json(deep) == "discarded");
  const std::string long_text = "X" + std::string("\x00\x00\x10\x00", 4) + std::string(1 << 20, 'x');
  std::string doubled = long_text;
  for (char i = 0; i < 60; ++i) doubled = doubled + "q" + i + "h" + i + "\x86";
  CHECK(as_json(doubled) == "discarded");
  std::string repeated = long_text + "q\x01](";
  for (std::size_t i = 0; i < 10'000; ++i) repeated += "h\x01";
  CHECK(as_json(repeated + "e") == "discarded");
}

TEST_CASE("each cut of torch's own pickle is refused, and the whole is read") {
  const std::string whole = test_data("flight_records/torch-2.13-gloo-groups/nccl_trace_rank_2");
  const auto json = read_pickle(whole);
  REQUIRE(json.is_object());
  CHECK(json.at("version") == "2.10");
  CHECK(json.at("entries").size() == 8);
  CHECK(json.at("entries").back().at("process_group") == nlohmann::json{"2", "tp"});
  CHECK(json.at("entries").back().at("retired") == false);
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(read_pickle(whole.substr(0, i)).is_discarded());
}
