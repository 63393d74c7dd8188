#include "options/fault_options.hpp"

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::options;

TEST_CASE("exit codes are a list of numbers, read in any order and each once") {
  CHECK(parse_exit_codes("3", "--no-restart-on") == std::vector<int>{3});
  CHECK(parse_exit_codes("255,1, 64,1", "--no-restart-on") == std::vector<int>{1, 64, 255});
}

TEST_CASE("what is no list of exit codes is refused with the right form") {
  const auto text_for = [](const std::string& text) {
    return usage_error_of([&] { parse_exit_codes(text, "--no-restart-on"); });
  };
  for (const std::string text : {"", "0", "256", "x", "3,", "-3", "3;4", "1e2", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(text_for(text) == "--no-restart-on is not a list of exit codes: '" + text +
                                "' | give codes from 1 to 255, as in 3 or 3,64; 128+n means signal n");
  }
  CHECK(text_for("3-5") ==
        "--no-restart-on is not a list of exit codes: '3-5' | name each code, as in 3,4,5: ranges are not "
        "accepted");
}

TEST_CASE("a restart rule has the name that the option reads") {
  CHECK(name_of(RestartRule::always) == "always");
  CHECK(name_of(RestartRule::progress) == "progress");
  CHECK(name_of(RestartRule::never) == "never");
}
