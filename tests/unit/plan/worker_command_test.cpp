#include "plan/worker_command.hpp"

#include "base/error.hpp"
#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::plan;

namespace {

using Words = std::vector<std::string>;

options::Options options_for(Words command) {
  options::Options options;
  options.command = std::move(command);
  return options;
}

Words command_of(const options::Options& options, facts::ProgramKind kind = facts::ProgramKind::python_file) {
  return make_worker_command(options, "/opt/bin/python", kind, LocalRank{3});
}

}  // namespace

TEST_CASE("a script runs unbuffered under the chosen python") {
  CHECK(command_of(options_for({"train.py", "--lr", "1"})) ==
        Words{"/opt/bin/python", "-u", "train.py", "--lr", "1"});
  CHECK(command_of(options_for({"train"}), facts::ProgramKind::not_executable) ==
        Words{"/opt/bin/python", "-u", "train"});
}

TEST_CASE("an executable that is no Python file runs as it is") {
  CHECK(command_of(options_for({"./train.sh", "x"}), facts::ProgramKind::executable) ==
        Words{"./train.sh", "x"});
}

TEST_CASE("a module runs with -m even where an executable has its name") {
  options::Options options = options_for({"pkg.train"});
  options.module = true;
  CHECK(command_of(options, facts::ProgramKind::executable) ==
        Words{"/opt/bin/python", "-u", "-m", "pkg.train"});
}

TEST_CASE("--no-python runs a Python file as it is") {
  options::Options options = options_for({"./train.py", "x"});
  options.no_python = true;
  CHECK(command_of(options) == Words{"./train.py", "x"});
}

TEST_CASE("--run-path wins over --no-python and --module") {
  options::Options options = options_for({"tool"});
  options.run_path = options.no_python = options.module = true;
  CHECK(command_of(options, facts::ProgramKind::executable) == Words{"/opt/bin/python", "-u", "tool"});
}

TEST_CASE("--no-use-env gives the local rank as the script's first argument") {
  options::Options options = options_for({"train.py", "--lr", "1"});
  options.local_rank_argument = true;
  CHECK(command_of(options) == Words{"/opt/bin/python", "-u", "train.py", "--local-rank=3", "--lr", "1"});
  options = options_for({"pkg.train"});
  options.module = options.local_rank_argument = true;
  CHECK(command_of(options) == Words{"/opt/bin/python", "-u", "-m", "pkg.train", "--local-rank=3"});
}

TEST_CASE("the local rank macro is replaced in every word and nothing else is") {
  CHECK(command_of(options_for({"t.py", "--local-rank=${local_rank}", "${local_rank}${local_rank}",
                                "$local_rank", "$$", "${local_ran", "${rank}"})) ==
        Words{"/opt/bin/python", "-u", "t.py", "--local-rank=3", "33", "$local_rank", "$$", "${local_ran",
              "${rank}"});
}

TEST_CASE("a script that is where a PBS job was submitted is found by the hint") {
  facts::Snapshot snapshot;
  snapshot.working_directory = "/home/user";
  snapshot.environment = {{"PBS_JOBID", "0.ctl"}, {"PBS_O_WORKDIR", "/home/user/job"}};
  snapshot.programs["train.py"] = {facts::ProgramKind::missing, ""};
  snapshot.programs[path_where_submitted("train.py", snapshot)] = {facts::ProgramKind::python_file,
                                                                   "/home/user/job/train.py"};
  std::string hint;
  try {
    find_program_kind(options_for({"train.py"}), snapshot);
  } catch (const Error& error) {
    hint = error.hint();
  }
  CHECK(hint ==
        "it is in /home/user/job, where the job was submitted; PBS starts scripts in the home directory: "
        "write cd "
        "\"$PBS_O_WORKDIR\" before ddprun");
  CHECK(path_where_submitted("/abs/train.py", snapshot).empty());
  snapshot.environment.erase("PBS_JOBID");
  CHECK(path_where_submitted("train.py", snapshot).empty());
}

TEST_CASE("a PYTHON_EXEC that is not there is an error") {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.environment = {{"PYTHON_EXEC", "/opt/gone"}};
  CHECK(find_python(snapshot) == "python3");  // nobody has looked
  snapshot.programs["/opt/gone"] = {facts::ProgramKind::missing, ""};
  CHECK(usage_error_of([&] { find_python(snapshot); }) ==
        "PYTHON_EXEC=/opt/gone cannot be started on n1: no such file | set it to an existing python, or "
        "unset PYTHON_EXEC");
}

TEST_CASE("a script that only PATH has is named by its path instead of being left to python") {
  facts::Snapshot snapshot;
  snapshot.host.name = "n1";
  snapshot.working_directory = "/home/user";
  snapshot.programs["train.py"] = {facts::ProgramKind::python_file, "/opt/bin/train.py"};
  options::Options options = options_for({"train.py"});
  CHECK(error_of([&] { find_program_kind(options, snapshot); }) ==
        "cannot start train.py on n1: no such file in /home/user | it is on PATH: write /opt/bin/train.py | "
        "127");
  options.no_python = true;
  CHECK(find_program_kind(options, snapshot) == facts::ProgramKind::python_file);
}

TEST_CASE("the system's Python beside an environment that is not on PATH is worth a remark") {
  facts::Snapshot snapshot;
  snapshot.environment["CONDA_PREFIX"] = "/opt/conda/envs/llm";
  snapshot.programs["python3"] = {facts::ProgramKind::executable, "/usr/bin/python3"};
  CHECK(find_odd_python(options_for({"train.py"}), snapshot) ==
        allocation::Notice{"/usr/bin/python3 runs the workers: CONDA_PREFIX is /opt/conda/envs/llm, but its "
                           "bin folder is not on "
                           "PATH",
                           "activate the environment before ddprun, or export "
                           "PYTHON_EXEC=/opt/conda/envs/llm/bin/python; unset "
                           "CONDA_PREFIX if /usr/bin/python3 is meant"});
  snapshot.programs["train.sh"] = {facts::ProgramKind::executable, "train.sh"};
  CHECK_FALSE(find_odd_python(options_for({"train.sh"}), snapshot));
  snapshot.programs["python3"].path = "/opt/conda/envs/llm/bin/python3";
  CHECK_FALSE(find_odd_python(options_for({"train.py"}), snapshot));
  snapshot.programs["python3"].path = "/apps/python/3.12/bin/python3";  // a module of the site, loaded later
  CHECK_FALSE(find_odd_python(options_for({"train.py"}), snapshot));
}

TEST_CASE("a Python that the command names wins over PYTHON_EXEC, and that is said") {
  facts::Snapshot snapshot;
  snapshot.environment["PYTHON_EXEC"] = "/opt/x/bin/python";
  snapshot.programs["python"] = {facts::ProgramKind::executable, "/usr/bin/python"};
  snapshot.programs["/opt/x/bin/python"] = {facts::ProgramKind::executable, "/opt/x/bin/python"};
  CHECK(find_odd_python(options_for({"python", "x.py"}), snapshot) ==
        allocation::Notice{
            "python of the command is /usr/bin/python: PYTHON_EXEC=/opt/x/bin/python has no effect",
            "leave python out, and ddprun runs the script with PYTHON_EXEC"});
  CHECK_FALSE(find_odd_python(options_for({"x.py"}), snapshot));
  snapshot.programs["python"].path = "/opt/x/bin/python";
  CHECK_FALSE(find_odd_python(options_for({"python", "x.py"}), snapshot));
}

TEST_CASE("a local rank that is written behind the script is the same for all workers, and that is said") {
  CHECK(find_fixed_local_rank(options_for({"train.py", "--local_rank", "0"}), 4) ==
        allocation::Notice{"--local_rank 0 of the command is the same for all 4 workers",
                           "leave it out: LOCAL_RANK is in the environment of each worker; for a script that "
                           "needs the argument, "
                           "write --local_rank='${local_rank}', or add --no-use-env"});
  CHECK(find_fixed_local_rank(options_for({"train.py", "--local-rank=2", "x"}), 2));
  CHECK_FALSE(find_fixed_local_rank(options_for({"train.py", "--local_rank", "0"}), 1));
  CHECK_FALSE(find_fixed_local_rank(options_for({"train.py", "--local_rank=${local_rank}"}), 4));
  CHECK_FALSE(find_fixed_local_rank(options_for({"train.py", "--local_rank"}), 4));
}

TEST_CASE("a Python takes PYTHONPATH unless -I or -E is among its own options") {
  for (const Words& words :
       {Words{"python", "train.py", "-I"}, Words{"python3", "-u", "-m", "train", "-E"}, Words{"python3"},
        Words{"python3", "-um", "train", "-E"}, Words{"python3", "-W", "-I", "train.py"},
        Words{"python3", "-WE", "t.py"}, Words{"python3", "-c", "-I"}, Words{"python3", "-", "-I"},
        Words{"python3", "--check-hash-based-pycs", "-E", "t.py"}}) {
    INFO(words.back());
    CHECK(starts_python(words));
    CHECK(takes_python_path(words));
  }
  for (const Words& words :
       {Words{"python", "-I", "train.py"}, Words{"python3", "-uE", "train.py"},
        Words{"python3", "-W", "error", "-I"}, Words{"python3", "-Xdev", "-sI", "-m", "train"},
        Words{"python3", "--version", "-E"}}) {
    INFO(words.back());
    CHECK_FALSE(takes_python_path(words));
  }
  CHECK_FALSE(starts_python({"/opt/python/bin/train"}));
}

TEST_CASE("--container comes before the command, whose files are the image's") {
  options::Options options;
  options.container = options::parse_container("apptainer exec x.sif", "--container");
  facts::Snapshot snapshot;
  snapshot.environment["PYTHON_EXEC"] = "/not/here/python";
  options.command = {"nowhere.py", "a"};
  CHECK(find_program_kind(options, snapshot) == facts::ProgramKind::python_file);
  CHECK(find_python_inside(snapshot) == "/not/here/python");
  CHECK(find_python_inside({}) == "python3");
  CHECK(make_worker_command(options, "python3", facts::ProgramKind::python_file, LocalRank{0}) ==
        std::vector<std::string>{"apptainer", "exec", "x.sif", "python3", "-u", "nowhere.py", "a"});
  options.command = {"python", "x.py"};
  CHECK(find_program_kind(options, snapshot) == facts::ProgramKind::executable);
  snapshot.host.name = "n1";
  snapshot.programs["apptainer"] = {facts::ProgramKind::missing, ""};
  CHECK_THROWS_WITH(find_program_kind(options, snapshot),
                    "cannot start apptainer of --container on n1: it is not on PATH");
}
