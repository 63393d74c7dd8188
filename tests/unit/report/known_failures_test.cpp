#include "report/known_failures.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/text.hpp"
#include "catch.hpp"
#include "report/report.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::report;

namespace {

const std::string k_folder = std::string(DDPRUN_TEST_DATA) + "/failures/";

// The first lines say where it is from, and what is not in the worker's own words: "# signal: 9".
Failure example(const std::string& name) {
  std::ifstream file(k_folder + name + ".txt");
  REQUIRE(file);
  Failure failure;
  failure.host = "n1";
  failure.program = "python3";
  failure.status = {ExitStatus::Kind::exited, 1, {}, false};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("# signal: ")) {
      failure.status = {
          ExitStatus::Kind::signalled, static_cast<int>(*parse_integer(line.substr(10))), {}, false};
    } else if (line.starts_with("# out_of_memory: ")) {
      failure.out_of_memory = line.substr(17);
    } else if (!line.starts_with("# ")) {
      failure.last_lines.push_back(line);
    }
  }
  return failure;
}

std::set<std::string> names_of_examples() {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(k_folder)) names.insert(file.path().stem());
  return names;
}

}  // namespace

TEST_CASE("each known failure has an example, and each example is of a known failure") {
  std::set<std::string> known;
  for (const KnownFailure& row : known_failures()) known.emplace(row.name);
  CHECK(known == names_of_examples());
  CHECK(known.size() == known_failures().size());
}

TEST_CASE("each example says whether it was recorded") {
  for (const std::string& name : names_of_examples()) {
    std::ifstream file(k_folder + name + ".txt");
    std::string first;
    std::getline(file, first);
    CAPTURE(name, first);
    CHECK((first.starts_with("# recorded: ") || first.starts_with("# constructed: ")));
  }
}

TEST_CASE("each example gives its own hint and no other") {
  for (const std::string& name : names_of_examples()) {
    CAPTURE(name);
    const auto found = find_known_failures(example(name), 2);
    REQUIRE_FALSE(found.empty());
    CHECK(found.front()->name == name);
    // That a peer went away may be said beside anything; it is the last in the table. NCCL 2.28 also calls a
    // missing interface ncclInvalidUsage. --local-rank is one of many arguments that a script may not have.
    for (std::size_t i = 1; i < found.size(); ++i)
      CHECK((found[i]->name == "peer-gone" || found[i]->name == "nccl-mismatch" ||
             found[i]->name == "unknown-argument"));
    const std::string hint = find_failure_hint(example(name), 2);
    CHECK(hint.starts_with(found.front()->meaning));
    CHECK(hint.ends_with(found.front()->remedy));
    CHECK(hint.find('\n') == std::string::npos);
  }
}

TEST_CASE("a script that spawns ranks of its own is told to start one worker a node") {
  const std::string hint = find_failure_hint(example("spawned-ranks"), 2);
  CHECK(
      hint ==
      "each of several workers starts ranks of its own (torch.multiprocessing.spawn): give --nproc-per-node "
      "1, or leave out spawn() and read RANK, LOCAL_RANK and WORLD_SIZE from the environment");
  // Nothing collides in a world of one.
  CHECK(find_failure_hint(example("spawned-ranks"), 1).find("spawn") == std::string::npos);
}

TEST_CASE("an exception in the error file counts as well") {
  Failure failure;
  failure.message = "Traceback ...\ntorch.multiprocessing.spawn.ProcessExitedException: process 1 terminated";
  CHECK_FALSE(find_failure_hint(failure, 2).empty());
}

TEST_CASE("torch's abort at exit is explained where it was the last that happened") {
  Failure failure = example("abort-at-exit");
  CHECK(find_failure_hint(failure, 1).starts_with("Python exited without destroy_process_group() while"));
  CHECK(find_known_failures(failure, 2).size() == 1);
  Failure with_dump = failure;
  with_dump.last_lines.insert(with_dump.last_lines.end(),
                              {"Fatal Python error: Aborted", "  File \"t.py\", line 3 in f"});
  CHECK(find_failure_hint(with_dump, 1) == find_failure_hint(failure, 1));
  failure.last_lines.emplace_back("and then something else");
  CHECK(find_failure_hint(failure, 1).empty());
}

TEST_CASE("a file that hides a module is named where an installed module has imported it") {
  Failure failure = example("hidden-module");
  CHECK(find_failure_hint(failure, 1) ==
        "a file beside the script has the name of a module that is imported, or two files import each other: "
        "rename the file that the error names, and remove its copy in __pycache__");
  failure.last_lines.front() = "  File \"/home/me/train.py\", line 5, in <module>";  // a mistake of its own
  CHECK(find_failure_hint(failure, 1).empty());
  failure.last_lines = {
      "AttributeError: partially initialized module 'torch' has no attribute 'zeros' (most likely due "
      "to a circular import)"};
  CHECK(find_failure_hint(failure, 1).starts_with("a file beside the script"));
  failure.last_lines = {
      "ImportError: cannot import name 'x' from 'random' (consider renaming '/home/me/random.py' since it "
      "has "
      "the same name as the standard library module named 'random')"};
  CHECK(find_failure_hint(failure, 1).starts_with("a file beside the script"));
}

TEST_CASE("a torch without CUDA is recognised by the function that it lacks") {
  Failure failure;
  failure.last_lines = {"AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'"};
  CHECK(find_failure_hint(failure, 1).starts_with("torch sees no GPU in this worker"));
}

TEST_CASE("a SIGKILL that ddprun sent is no riddle") {
  Failure failure = example("killed");
  failure.after_stop = true;
  CHECK(find_failure_hint(failure, 2).empty());
}

TEST_CASE(
    "a fault of a GPU in the kernel's log may be the hardware's, what others show of a failure is not") {
  Failure failure;
  failure.because = "GPU 0 of rank 1 was not there";
  CHECK_FALSE(may_be_hardware(failure));
  failure.gpu_fault = true;
  CHECK(may_be_hardware(failure));
}

TEST_CASE("of an unknown failure nothing is said") {
  Failure failure;
  failure.status = {ExitStatus::Kind::exited, 1, {}, false};
  failure.last_lines = {"ValueError: bad"};
  CHECK(find_failure_hint(failure, 8).empty());
}

TEST_CASE("the report prints the hint under the failure") {
  Cause cause;
  cause.kind = Cause::Kind::worker_failed;
  cause.failure = example("killed");
  cause.failure.hint = "do this";
  CHECK(render_report(cause, {0, 0, {}}) ==
        "rank 0 on n1 was killed by SIGKILL\n"
        "  python3\n"
        "  its last lines:\n"
        "  | loading shard 17 of 64\n"
        "  hint: do this\n");
}
