#include "os/process/helper_child.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "catch.hpp"
#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "processes.hpp"

using namespace ddprun;
using namespace ddprun::os;
using namespace ddprun::testing;

namespace {

bool no_children() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace

TEST_CASE("a child that has answered is reaped at its end, and so is one that has not") {
  AnsweringChild answered([] { return std::string("x"); }, "test");
  CHECK(read_until(answered.descriptor(), "") == "x");
  answered.end();
  CHECK(no_children());
  AnsweringChild silent(
      [] {
        while (true) ::pause();
        return std::string();
      },
      "test");
  silent = AnsweringChild();
  CHECK(no_children());
}

TEST_CASE("a child that was reaped as an orphan leaves nothing to end, whoever has its number") {
  AnsweringChild child([] { return std::string("x"); }, "test");
  CHECK(read_until(child.descriptor(), "") == "x");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!no_children()) {
    reap_orphans({});
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  }
  child.end();
  CHECK(no_children());
}

TEST_CASE("what a child does after its answer holds up no reader of it") {
  Pipe later = make_pipe();
  AnsweringChild child([] { return std::string("x"); }, "test",
                       [&later] {
                         ::pause();
                         write_whole(later.writer.get(), "y");
                       });
  CHECK(read_until(child.descriptor(), "") == "x");
  CHECK_FALSE(child.end()->kind == ExitStatus::Kind::exited);
  AnsweringChild other([] { return std::string("x"); }, "test",
                       [&later] { write_whole(later.writer.get(), "y"); });
  later.writer.close();
  CHECK(read_until(later.reader.get(), "") == "y");
}

TEST_CASE("a helper is known as one until it is reaped, in this process alone") {
  for (const int other : running_helpers()) forget_helper(other);  // of other tests
  AnsweringChild first([] { return std::to_string(running_helpers().size()); }, "test");
  AnsweringChild second([] { return std::to_string(running_helpers().size()); }, "test");
  CHECK(read_until(second.descriptor(), "") == "0");
  CHECK(running_helpers() == std::vector<int>{first.pid(), second.pid()});
  CHECK(read_until(first.descriptor(), "") == "0");
  reap_orphans(running_helpers());  // they have ended, and are not its
  CHECK(first.end());
  CHECK(running_helpers() == std::vector<int>{second.pid()});
  for (const int pid = second.pid(); !reap(pid);) ::usleep(1000);
  CHECK(running_helpers().empty());
}
