// Folders of --stacks FOLDER: of a run with --stacks-every, and of torch's own flight records.
#include "commands/status_command.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "catch.hpp"
#include "error_text.hpp"
#include "inspection/node_usage.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/files/temp_dir.hpp"
#include "os/read_file.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::commands;

namespace {

std::string recorded(const std::string& job) {
  return std::string(DDPRUN_TEST_DATA) + "/flight_records/torch-2.13-gloo-" + job;
}

// Writes the dump of this process as rank 0 of two, as an agent does; what could not be written.
std::string write_dump(const std::string& start, std::int64_t number) {
  status::NodeStatus node;
  node.host = "n1";
  node.workers.emplace_back().pid = ::getpid();
  inspection::WorkerPlaces places;
  places.dump = start;
  status::Moment& moment = places.moment.emplace();
  moment.time = os::unix_milliseconds();
  moment.number = number;
  moment.job.launch_id = "launch";
  moment.job.program = "train.py";
  moment.job.workers = 2;
  os::Pipe problem = os::make_pipe();
  auto child = inspection::measure_node_in_child(node, places, inspection::Depth::dump, problem.writer.get());
  problem.writer.close();
  std::string text(4096, '\0');
  text.resize(
      static_cast<std::size_t>(std::max<ssize_t>(::read(problem.reader.get(), text.data(), text.size()), 0)));
  return text;
}

}  // namespace

TEST_CASE(
    "torch's flight records are read as pickles and as JSON, from the folder or the one of the last "
    "attempt") {
  const std::string missing = "ranks 0,2-3 wait in all_reduce #4 (10 float), missing: rank 1 (last #3)\n";
  for (const char* job : {"missing", "missing-json"})
    CHECK(describe_stack_folder(recorded(job)).find(missing) != std::string::npos);
  const os::TempDir run(std::nullopt);
  std::filesystem::copy(recorded("even"), run.path() + "/attempt-9");
  std::filesystem::copy(recorded("missing"), run.path() + "/attempt-10");
  CHECK(describe_stack_folder(run.path()).find(missing) != std::string::npos);
}

// Made in the form of torch's own tests, not recorded on GPUs; torch's fr_trace finds the same in it.
TEST_CASE("NCCL's flight records say who is missing, and whose sizes and types differ") {
  const std::string text = describe_stack_folder(DDPRUN_TEST_DATA "/flight_records/torch-nccl-made");
  for (const char* const part :
       {"ranks 0,2-3 wait in all_reduce #4 (4x4 bfloat16), missing: rank 1 (last #3)\n",
        "all_reduce #1 (1024 bfloat16) by rank 0, all_reduce #1 (2048 bfloat16) by rank 2\n",
        "all_reduce #1 (1024 bfloat16) by rank 1, all_reduce #1 (1024 float) by rank 3\n"})
    CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("of files that end with a number those that are flight records count, of the name that most have") {
  const os::TempDir folder(std::nullopt);
  std::filesystem::copy(recorded("missing"), folder.path(), std::filesystem::copy_options::recursive);
  std::filesystem::copy_file(recorded("even") + "/nccl_trace_rank_0", folder.path() + "/older_0");
  std::ofstream(folder.path() + "/nccl_trace_rank_4") << "cos\nsystem\n(S'true'\ntR.";
  std::ofstream(folder.path() + "/nccl_trace_rank_99999999999999999999") << "{}";
  const auto after_time = [](const std::string& text) { return text.substr(text.find(", ranks ")); };
  CHECK(after_time(describe_stack_folder(folder.path())) ==
        after_time(describe_stack_folder(recorded("missing"))));
}

TEST_CASE("what an agent has dumped is shown, and the oldest dump is replaced") {
  const os::TempDir logs(std::nullopt);
  const std::string run = logs.path() + "/run";
  std::filesystem::create_directory(run);
  for (std::int64_t number = 5; number < 11; ++number)
    CHECK(write_dump(run + "/stacks/rank-00000", number) == "");
  CHECK(os::list_folder(run + "/stacks") == std::vector<std::string>{"rank-00000.0.json", "rank-00000.1.json",
                                                                     "rank-00000.2.json",
                                                                     "rank-00000.3.json"});
  std::filesystem::create_directory_symlink("run", logs.path() + "/latest");
  for (const std::string& folder : {logs.path(), run, run + "/stacks"}) {
    const std::string text = describe_stack_folder(folder);
    CHECK(text.find(", rank 0, without 1 of 2 ranks\n") != std::string::npos);
    CHECK(text.find("rank 0 on n1 ") != std::string::npos);
  }
}

TEST_CASE("a dump that cannot be written says why") {
  CHECK(write_dump("/nowhere/stacks/rank-00000", 0) ==
        "/nowhere/stacks/rank-00000.0.json: no such file or directory");
}

TEST_CASE("a folder without dumps and flight records is an error") {
  const os::TempDir folder(std::nullopt);
  CHECK(usage_error_of([&] { describe_stack_folder(folder.path()); }) ==
        folder.path() +
            " contains no dumps of --stacks-every and no flight records of torch | give the folder of "
            "--logs, or of TORCH_FR_DUMP_TEMP_FILE");
}
