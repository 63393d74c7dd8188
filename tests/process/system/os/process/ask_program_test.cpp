#include "os/process/child_call.hpp"

#include <signal.h>

#include "catch.hpp"
#include "os/clock.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace std::chrono_literals;

namespace {

ProgramEnd run(const std::string& script, const std::string& input = "", Milliseconds limit = 60s,
               std::size_t most = 16384) {
  return run_program({{"sh", "-c", script}, {"PATH=/usr/bin:/bin", "WORD=two"}, input}, limit, most);
}

}  // namespace

TEST_CASE("a program has its input, its environment and its errors in the output") {
  const ProgramEnd end = run("cat; echo $WORD; echo three >&2; exit 4", "one\n");
  CHECK(end.output == "one\ntwo\nthree\n");
  CHECK(end.status == ExitStatus{ExitStatus::Kind::exited, 4});
  CHECK(run("cat").output.empty());
}

TEST_CASE("a program that says much is read to its end, and little of it is kept") {
  const ProgramEnd end = run("head -c 3000000 /dev/zero | tr '\\0' x; exit 1", "", 60s, 1000);
  CHECK(end.status == ExitStatus{ExitStatus::Kind::exited, 1});
  CHECK(end.output == std::string(1000, 'x'));
  CHECK(run("cat > /dev/null; echo done", std::string(1000000, 'y')).output == "done\n");
}

TEST_CASE("a program that does not end is killed, and says nothing of its end") {
  const ProgramEnd end = run("echo begun; exec sleep 1000", "", 300ms);
  CHECK_FALSE(end.status);
  CHECK(end.output == "begun\n");
}

TEST_CASE("what a program leaves behind does not hold its end back, and is killed") {
  const ProgramEnd end = run("sleep 1000 & echo $!");
  CHECK(end.status->success());
  const pid_t left = std::stoi(end.output);
  while (::kill(left, 0) == 0) {  // it becomes init's, or a reaper's
    ::usleep(1000);
  }
  CHECK(errno == ESRCH);
}

TEST_CASE("a program that is not there has not started") {
  const ProgramEnd end = run_program({{"/no/such/program"}, {}, {}}, 60s);
  REQUIRE(end.status);
  CHECK(end.status->kind == ExitStatus::Kind::not_started);
  CHECK(end.status->value == ENOENT);
}
