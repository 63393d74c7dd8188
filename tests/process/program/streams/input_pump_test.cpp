#include "streams/input_pump.hpp"

#include "catch.hpp"
#include "processes.hpp"
#include "pseudo_terminal.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::streams;
using namespace ddprun::testing;

TEST_CASE("what is typed reaches the worker's pipe, and ^D ends it") {
  PseudoTerminal terminal({"type_for", DDPRUN_TEST_WORKER, "read_lines"});
  terminal.expect("reading");
  terminal.type("hello\n");
  terminal.expect("got hello");
  terminal.type("\x04");
  terminal.expect("end of input");
  terminal.expect("launcher ends");
  CHECK(terminal.wait_for_end().success());
}

TEST_CASE("in the background what is typed is left to the shell") {
  PseudoTerminal terminal({"type_for", DDPRUN_TEST_WORKER, "read_lines"}, "shell_with_bg");
  terminal.expect("reading");
  terminal.type("for the shell\n");
  terminal.expect("shell got for the shell");
  terminal.type("for the worker\n");
  terminal.expect("got for the worker");
  terminal.type("quit\n");
  terminal.expect("launcher ends");
  CHECK(terminal.wait_for_end().success());
}

TEST_CASE("input after the worker's end ends the pump, not the launcher") {
  PseudoTerminal terminal({"type_for", DDPRUN_TEST_WORKER, "read_lines"});
  terminal.expect("reading");
  terminal.type("quit\n");
  terminal.type("nobody\n");
  terminal.type("listens\n");
  terminal.expect("launcher ends");
  terminal.expect("job ended with 0");
  CHECK(terminal.wait_for_end().success());
}

TEST_CASE("what one worker has not read goes to the next one, in its order, and then what is typed") {
  PseudoTerminal terminal({"type_for_next", DDPRUN_TEST_WORKER, "read_lines"});
  terminal.expect("nobody reads");
  for (const char* end : {"1\n", "2\n"}) terminal.type(std::string(3998, 'x') + end);
  terminal.type("3\n");
  // The worker reads 255 bytes at a time and says all but the last of them.
  const std::string last_piece = "got " + std::string(173, 'x');
  terminal.expect(last_piece + "1");
  terminal.expect(last_piece + "2");
  terminal.expect("got 3");
  terminal.type("live\n");
  terminal.expect("got live");
  terminal.type("\x04");
  terminal.expect("end of input");
  terminal.expect("launcher ends");
  CHECK(terminal.wait_for_end().success());
}
