// The whole program in a child: run(), the driver and the worker group with real processes.
#include "ddprun/run.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/text.hpp"
#include "catch.hpp"
#include "forked_ddprun.hpp"
#include "os/files/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::app;
using ddprun::testing::ForkedDdprun;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

Words shell(const std::string& script, Words options = {}) {
  options.insert(options.end(), {"--no-python", "sh", "-c", script});
  return options;
}

ForkedDdprun::End run(Words arguments, const os::TempDir& folder) {
  return ForkedDdprun(std::move(arguments), folder.path()).wait();
}

Words sorted_lines(const std::string& text) {
  Words lines = split(trim(text), '\n');
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void wait_for_files(const os::TempDir& folder, const Words& names) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto is_there = [&](const std::string& name) { return fs::exists(folder.path() + "/" + name); };
  while (!std::all_of(names.begin(), names.end(), is_there)) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// What is left in the folder of the run: nothing but what the test itself put there.
Words left_in(const os::TempDir& folder) {
  Words names;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("workers run with their ranks, and their success is ddprun's") {
  const os::TempDir folder(std::nullopt);
  const auto end =
      run(shell("echo $RANK of $WORLD_SIZE, attempt $TORCHELASTIC_RESTART_COUNT", {"--nproc-per-node", "2"}),
          folder);
  CHECK(end.code == 0);
  CHECK(sorted_lines(end.output) == Words{"0 of 2, attempt 0", "1 of 2, attempt 0"});
  CHECK(end.error.empty());
  CHECK(left_in(folder).empty());
}

TEST_CASE("one worker's failure stops the others and is ddprun's, with its last words") {
  const os::TempDir folder(std::nullopt);
  const auto end =
      run(shell("[ $RANK = 0 ] && exec sleep 600; echo no memory >&2; exit 7", {"--nproc-per-node", "2"}),
          folder);
  CHECK(end.code == 7);
  CHECK(holds(end.error, "rank 1 on "));
  CHECK(holds(end.error, "exited with code 7"));
  CHECK(holds(end.error, "no memory"));
}

TEST_CASE("all workers start again after a failure, with the attempt's number, as often as was asked") {
  const os::TempDir folder(std::nullopt);
  const Words twice{"--nproc-per-node", "2", "--max-restarts", "2", "--restart-policy", "always"};
  const auto saved = run(
      shell("echo $RANK.$TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ]", twice), folder);
  CHECK(saved.code == 0);
  CHECK(holds(saved.output, "0.2\n"));
  CHECK(holds(saved.output, "1.2\n"));
  CHECK(holds(saved.error, "restart 2 of 2"));
  const auto lost = run(shell("exit 5", twice), folder);
  CHECK(lost.code == 5);
}

TEST_CASE("a program that is not there is said so with the shell's code") {
  const os::TempDir folder(std::nullopt);
  const auto end = run({"--no-python", "no-such-program"}, folder);
  CHECK(end.code == 127);
  CHECK(holds(end.error, "no-such-program"));
}

TEST_CASE("a stop signal reaches every worker, which may take its time to save") {
  const os::TempDir folder(std::nullopt);
  const std::string script =
      "trap 'sleep 0.2; echo saved $RANK; exit 0' TERM; touch $HOME/ready.$RANK; while :; do sleep 0.02; "
      "done";
  ForkedDdprun ddprun(shell(script, {"--nproc-per-node", "2"}), folder.path());
  wait_for_files(folder, {"ready.0", "ready.1"});
  ::kill(ddprun.pid(), SIGTERM);
  const auto end = ddprun.wait();
  CHECK(end.code == 143);
  CHECK(sorted_lines(end.output) == Words{"saved 0", "saved 1"});
  CHECK(holds(end.error, "stopped by SIGTERM"));
}

TEST_CASE("a worker that ignores the stop signal is killed when its time is over") {
  const os::TempDir folder(std::nullopt);
  const std::string script = "trap '' TERM; touch $HOME/ready.$RANK; while :; do sleep 0.02; done";
  ForkedDdprun ddprun(shell(script, {"--nproc-per-node", "2", "--shutdown-timeout", "1"}), folder.path());
  wait_for_files(folder, {"ready.0", "ready.1"});
  ::kill(ddprun.pid(), SIGTERM);
  CHECK(ddprun.wait().code == 143);
}

TEST_CASE("files of the output by rank are written beside what is shown") {
  const os::TempDir folder(std::nullopt);
  const auto end =
      run(shell("echo out $RANK; echo err $RANK >&2",
                {"--nproc-per-node", "2", "--rdzv-id", "job", "--logs", folder.path() + "/logs"}),
          folder);
  CHECK(end.code == 0);
  for (const char* const rank : {"0", "1"}) {
    std::ifstream file(folder.path() + "/logs/job/attempt-0/rank-0000" + rank + ".out");
    std::stringstream text;
    text << file.rdbuf();
    CHECK(text.str() == std::string("out ") + rank + "\n");
  }
}

TEST_CASE("a dry run prints what the workers would get and starts nothing") {
  const os::TempDir folder(std::nullopt);
  const auto end = run(shell("touch $HOME/started", {"--dry-run=json", "--nproc-per-node", "2"}), folder);
  CHECK(end.code == 0);
  const auto plan = nlohmann::json::parse(end.output);
  CHECK(plan["workers"].size() == 2);
  CHECK(plan["workers"][1]["env"]["RANK"] == "1");
  CHECK(left_in(folder).empty());
}

TEST_CASE("a snapshot is planned for instead of this host") {
  const os::TempDir folder(std::nullopt);
  const std::string file = folder.path() + "/snapshot.json";
  CHECK(run({"--capture", file, "--no-python", "true"}, folder).code == 0);
  const auto end =
      run({"--snapshot", file, "--dry-run=json", "--nproc-per-node", "3", "--no-python", "true"}, folder);
  CHECK(end.code == 0);
  CHECK(nlohmann::json::parse(end.output)["workers"].size() == 3);
}
