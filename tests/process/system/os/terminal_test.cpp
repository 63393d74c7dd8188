#include "os/terminal/terminal.hpp"

#include <signal.h>

#include "catch.hpp"
#include "processes.hpp"
#include "pseudo_terminal.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

TEST_CASE("a single worker in its own group reads the terminal it is lent") {
  PseudoTerminal terminal({"lend", DDPRUN_TEST_WORKER, "read_lines"});
  terminal.expect("reading");
  terminal.type("hello\n");
  terminal.expect("got hello");
  terminal.type("quit\n");
  terminal.expect("terminal is back");
  terminal.expect("job ended with 0");
  CHECK(terminal.wait_for_end().success());
}

TEST_CASE("^Z at the worker stops the whole job, and fg continues it with the terminal") {
  PseudoTerminal terminal({"lend", DDPRUN_TEST_WORKER, "read_lines"});
  terminal.expect("reading");
  terminal.type("\x1a");
  terminal.expect("launcher stops");
  terminal.expect("job stopped by " + std::to_string(SIGTSTP));
  terminal.expect("launcher continues in front");
  terminal.type("again\n");
  terminal.expect("got again");
  terminal.type("\x04");
  terminal.expect("end of input");
  terminal.expect("terminal is back");
  CHECK(terminal.wait_for_end().success());
}

TEST_CASE("without the terminal a worker is stopped when it reads") {
  PseudoTerminal terminal({"keep_terminal", DDPRUN_TEST_WORKER, "read_lines"});
  terminal.expect("reading");
  terminal.expect("worker stopped by " + std::to_string(SIGTTIN));
  CHECK(terminal.wait_for_end().success());
}
