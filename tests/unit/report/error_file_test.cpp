#include "report/report.hpp"

#include "catch.hpp"

using ddprun::report::parse_error_file;

TEST_CASE("the traceback of an error file is preferred to its message") {
  CHECK(parse_error_file(R"({"message": {"message": "ValueError: bad",
        "extraInfo": {"py_callstack": "Traceback ...\nValueError: bad\n", "timestamp": "1"}}})") ==
        "Traceback ...\nValueError: bad\n");
  CHECK(parse_error_file(R"({"message": {"message": "ValueError: bad"}})") == "ValueError: bad");
  CHECK(parse_error_file(R"({"message": "plain", "timestamp": 1})") == "plain");
}

TEST_CASE("a torn or foreign error file says nothing") {
  for (const char* text : {"", "{", "[]", "null", R"({"message": 3})", R"({"message": {"extraInfo": []}})",
                           R"({"message": {"message": [1]}})", "\xff\xfe"}) {
    CAPTURE(text);
    CHECK(parse_error_file(text).empty());
  }
}
