#include "os/path_walk.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "os/files/temp_dir.hpp"
#include "os/process/child_call.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

void add(const std::string& path, const std::string& contents, bool may_execute) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << contents;
  using std::filesystem::perms;
  std::filesystem::permissions(path, may_execute ? perms::owner_all : perms::owner_read | perms::owner_write);
}

}  // namespace

TEST_CASE("a program is what execvp would start, or the reason why not") {
  const TempDir folder(std::nullopt);
  const std::string& base = folder.path();
  add(base + "/first/both", "", false);
  add(base + "/second/both", "", true);
  add(base + "/second/refused", "", false);
  add(base + "/second/script", "#!/usr/bin/env python3\n", false);
  std::filesystem::create_directories(base + "/first/dir");
  const std::string path = base + "/first:" + base + "/missing:" + base + "/second";
  CHECK(capture_program("both", path) ==
        facts::ProgramFacts{facts::ProgramKind::executable, base + "/second/both"});
  CHECK(capture_program("refused", path) ==
        facts::ProgramFacts{facts::ProgramKind::not_executable, base + "/second/refused"});
  CHECK(capture_program("script", path) ==
        facts::ProgramFacts{facts::ProgramKind::python_file, base + "/second/script"});
  CHECK(capture_program("dir", path) == facts::ProgramFacts{});
  CHECK(capture_program("nowhere", path) == facts::ProgramFacts{});
  CHECK(capture_program("", path) == facts::ProgramFacts{});
  CHECK(capture_program(base + "/first/dir", path) ==
        facts::ProgramFacts{facts::ProgramKind::directory, base + "/first/dir"});
  CHECK(capture_program(base + "/first/none", path) == facts::ProgramFacts{});
  CHECK(capture_program("sh", std::nullopt).kind == facts::ProgramKind::executable);
}

TEST_CASE("what lies in the working directory is a script, a hint or nothing") {
  const TempDir folder(std::nullopt);
  const std::string& base = folder.path();
  add(base + "/train.py", "", false);
  add(base + "/on_path/train.py", "", true);
  add(base + "/tool", "", true);
  add(base + "/notes", "", false);
  add(base + "/job", "#!/usr/bin/python3\n", false);
  const auto from_there = [&](const std::string& word, const std::string& path) {
    const ChildAnswer answer = call_in_child(
        [&] {
          if (::chdir(base.c_str()) != 0) return std::string("no folder");
          const facts::ProgramFacts facts = capture_program(word, path);
          return facts::to_string(facts.kind) + " " + facts.path;
        },
        Milliseconds{20000});
    return answer.bytes.value_or(answer.problem);
  };
  CHECK(from_there("train.py", base + "/on_path") == "python file train.py");
  CHECK(from_there("./tool", "/nonexistent") == "executable ./tool");
  CHECK(from_there("tool", "/nonexistent") == "missing tool");
  CHECK(from_there("tool", "") == "executable tool");  // an empty entry of PATH is the working directory
  CHECK(from_there("notes", "/nonexistent") == "not executable notes");
  CHECK(from_there("job", "/nonexistent") == "python file job");
}
