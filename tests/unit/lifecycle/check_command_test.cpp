#include "lifecycle/check_command.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;
using namespace std::chrono_literals;

namespace {

CommandVerdict judged(const std::optional<ExitStatus>& status, const std::string& output = "") {
  return judge_command("node-check", status, output, 30s);
}

ExitStatus exited(int code) { return {ExitStatus::Kind::exited, code}; }

}  // namespace

TEST_CASE("a check command that exits with 0 finds the node fit, with 1 unfit for the first line's reason") {
  CHECK(judged(exited(0), "all is well\n").fitness == Fitness::fit);
  const CommandVerdict unfit = judged(exited(1), "\n  fan 3 stands\x1b[0m still\nmore\n");
  CHECK(unfit.fitness == Fitness::unfit);
  CHECK(unfit.what.starts_with("fan 3 stands"));
  CHECK(unfit.what.find('\x1b') == std::string::npos);
  CHECK(unfit.what.ends_with("still"));
  CHECK(unfit.output.ends_with("more\n"));
  CHECK(judged(exited(1)).what == "node-check says that it is unfit");
}

TEST_CASE("a check command that does anything else is broken, and judges nothing") {
  const auto broken = [](const std::optional<ExitStatus>& status, const std::string& output = "") {
    const CommandVerdict verdict = judged(status, output);
    CHECK(verdict.fitness == Fitness::unknown);
    return describe_broken(verdict, "n1");
  };
  CHECK(broken(exited(2), "usage: node-check\n") ==
        "n1 is not judged by --check-command: node-check exited with code 2: usage: node-check");
  CHECK(broken({}) == "n1 is not judged by --check-command: node-check did not end within 30 s");
  CHECK(broken(ExitStatus{ExitStatus::Kind::signalled, 11}) ==
        "n1 is not judged by --check-command: node-check was killed by SIGSEGV");
  CHECK(broken(ExitStatus{ExitStatus::Kind::not_started, ENOENT, StartStage::exec}) ==
        "n1 is not judged by --check-command: node-check cannot be started: no such file");
}

TEST_CASE("a check is told why it runs") {
  CHECK(name_of(CheckFor::start) == "start");
  CHECK(name_of(CheckFor::restart) == "restart");
  CHECK(name_of(CheckFor::failure) == "failure");
}
