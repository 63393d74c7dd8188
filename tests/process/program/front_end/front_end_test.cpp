// The front end with real remote launchers, which are shells here and start no ddprun: what each end of them
// means.
#include "front_end/front_end.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "os/files/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::front_end;

namespace {

struct Launch {
  // One remote launcher for each host, which runs this script of the shell.
  explicit Launch(const std::vector<std::string>& scripts) {
    plan.remote_launcher = by_default(std::string("ssh"));
    plan.task = selflaunch::TaskWay::input;
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      plan.hosts.push_back("n" + std::to_string(i + 1));
      plan.commands.push_back({plan.hosts.back(), {"sh", "-c", scripts[i]}, true});
    }
    options.command = {"train.py"};
    options.shutdown_timeout.value = Milliseconds{2000};
    snapshot.host.name = "login1";
    snapshot.environment = {{"PATH", "/usr/bin:/bin"}, {"HOME", folder.path()}};
  }
  int run() {
    FrontEnd front_end(plan, options, snapshot);
    const int code = front_end.run();
    failure = front_end.failure();
    return code;
  }

  os::TempDir folder{std::nullopt};
  selflaunch::SelfLaunchPlan plan;
  options::Options options;
  facts::Snapshot snapshot;
  std::optional<Error> failure;
};

std::string wait_for_file(const std::string& path) {
  std::string text;
  for (;;) {
    std::ifstream file(path);
    if (std::getline(file, text) && !text.empty()) return text;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

TEST_CASE("a remote launcher that fails is the cause, with its host, its code and its last words") {
  Launch launch({"echo 'Permission denied (publickey).' >&2; exit 255", "exec sleep 60"});
  CHECK(launch.run() != 0);
  REQUIRE(launch.failure);
  CHECK(std::string(launch.failure->what()) ==
        "cannot start ddprun on n1: sh ended with 255: Permission denied (publickey).");
}

TEST_CASE("a remote launcher that is not there is the cause") {
  Launch launch({"exit 0"});
  launch.plan.commands[0].words = {"/nowhere/ssh", "n1"};
  CHECK(launch.run() != 0);
  REQUIRE(launch.failure);
  CHECK(std::string(launch.failure->what()) ==
        "cannot start ddprun on n1: /nowhere/ssh ended with 127: no such file or directory");
}

TEST_CASE("where no ddprun could connect back, the remote launchers' code is the job's") {
  Launch good({"exit 0", "exit 0"});
  CHECK(good.run() == 0);
  CHECK_FALSE(good.failure);
  Launch bad({"exit 0", "exit 3"});
  CHECK(bad.run() == 3);
  REQUIRE(bad.failure);
}

TEST_CASE("a signal that ends the job reaches the remote launchers, and none is left") {
  Launch launch({});
  const std::string script = "echo $$ > " + launch.folder.path() + "/pid.new; mv " + launch.folder.path() +
                             "/pid.new " + launch.folder.path() + "/pid; exec sleep 60";
  launch.plan.hosts = {"n1"};
  launch.plan.commands = {{"n1", {"sh", "-c", script}, true}};
  int launcher = 0;
  std::thread stopper([&] {
    launcher = std::stoi(wait_for_file(launch.folder.path() + "/pid"));
    ::kill(::getpid(), SIGTERM);
  });
  const int code = launch.run();
  stopper.join();
  CHECK(code == 128 + SIGTERM);
  CHECK(::kill(launcher, 0) == -1);
  CHECK(errno == ESRCH);
}
