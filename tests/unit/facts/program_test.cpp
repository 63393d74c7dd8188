#include "facts/program.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::facts;

TEST_CASE("a program is judged by its name, permission and first line") {
  CHECK(judge_program("train.py", false, false, "") == ProgramKind::python_file);
  CHECK(judge_program("train.py", false, true, "#!/bin/sh\n") == ProgramKind::python_file);
  CHECK(judge_program("./train", false, true,
                      "\x7f"
                      "ELF") == ProgramKind::executable);
  CHECK(judge_program("./train", false, true, "#!/usr/bin/env python3\n") == ProgramKind::executable);
  CHECK(judge_program("./train", false, false, "#!/usr/bin/env -S python3 -u\n") == ProgramKind::python_file);
  CHECK(judge_program("./train", false, false, "#! /opt/p/bin/python3.12\n") == ProgramKind::python_file);
  CHECK(judge_program("./train", false, false, "#!/bin/sh\npython\n") == ProgramKind::not_executable);
  CHECK(judge_program("./train", false, false, "#!/bin/sh python\n") == ProgramKind::not_executable);
  CHECK(judge_program("./train", false, false, "#!") == ProgramKind::not_executable);
  CHECK(judge_program("./train", false, false, "") == ProgramKind::not_executable);
  CHECK(judge_program("data.py", true, true, "") == ProgramKind::directory);
}

TEST_CASE("a kind and its name are one to one") {
  for (const ProgramKind kind : {ProgramKind::missing, ProgramKind::directory, ProgramKind::not_executable,
                                 ProgramKind::python_file, ProgramKind::executable}) {
    CHECK(parse_program_kind(to_string(kind)) == kind);
  }
  CHECK_FALSE(parse_program_kind("other"));
}

TEST_CASE("the active Python is looked for where it was activated") {
  using Words = std::vector<std::string>;
  CHECK(python_candidates({}) == Words{"python3", "python"});
  CHECK(python_candidates({{"PYTHON_EXEC", "/p"}, {"VIRTUAL_ENV", "/v"}}) == Words{"/p"});
  CHECK(python_candidates({{"PYTHON_EXEC", ""}, {"VIRTUAL_ENV", ""}}) == Words{"python3", "python"});
}

TEST_CASE("the first Python that can be started is taken") {
  const std::map<std::string, ProgramFacts> programs{
      {"python", {ProgramKind::missing, ""}},
      {"python3", {ProgramKind::executable, "/usr/bin/python3"}},
  };
  CHECK(choose_python({}, programs) == "/usr/bin/python3");
  CHECK_FALSE(choose_python({{"PYTHON_EXEC", "/p"}}, programs));
}

TEST_CASE("the Python beside ddprun counts where PATH has the system's or none") {
  std::map<std::string, ProgramFacts> programs{
      {k_own_python, {ProgramKind::executable, "/home/u/venv/bin/python"}},
      {"python3", {ProgramKind::executable, "/usr/bin/python3"}},
  };
  CHECK(choose_python({}, programs) == "/home/u/venv/bin/python");
  CHECK_FALSE(choose_python({{"PYTHON_EXEC", "/p"}}, programs));
  programs["python3"].path = "/module/bin/python3";
  CHECK(choose_python({}, programs) == "/module/bin/python3");
  programs.erase("python3");
  CHECK(choose_python({}, programs) == "/home/u/venv/bin/python");
}

TEST_CASE("an environment counts where PATH leads to its python") {
  std::map<std::string, ProgramFacts> programs{
      {"python", {ProgramKind::executable, "/conda/bin/python"}},
      {"python3", {ProgramKind::executable, "/usr/local/bin/python3"}},
  };
  CHECK(choose_python({{"VIRTUAL_ENV", "/left"}, {"CONDA_PREFIX", "/conda/"}}, programs) ==
        "/conda/bin/python");
  // module load has put its own in front
  programs = {{"python", {ProgramKind::executable, "/module/bin/python"}},
              {"python3", {ProgramKind::executable, "/module/bin/python3"}}};
  CHECK(choose_python({{"VIRTUAL_ENV", "/left"}, {"CONDA_PREFIX", "/conda"}}, programs) ==
        "/module/bin/python3");
}
