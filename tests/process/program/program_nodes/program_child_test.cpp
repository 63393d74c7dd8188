#include "program_nodes/program_child.hpp"

#include <fstream>

#include "catch.hpp"
#include "os/files/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::program_nodes;
using programs::Program;

namespace {

using Words = std::vector<std::string>;

Program server(Words words) {
  Program made;
  made.name = "server";
  made.nodes = 3;
  made.least = 2;
  made.words = std::move(words);
  made.words.insert(made.words.end(), {"--", "serve.py", "--nnodes=9"});
  return made;
}

ProgramPlace on(const std::string& folder, int hosts) {
  ProgramPlace place;
  for (int host = 1; host <= hosts; ++host) place.hosts.push_back("n" + std::to_string(host));
  place.address = "10.0.0.1";
  place.folder = folder;
  return place;
}

}  // namespace

TEST_CASE("a program that has fewer nodes than it takes is told so, and has fewer spares") {
  const Words start{"ddprun", "--rdzv-id=server", "--report=/f/report.json"};
  const auto arguments = [&](const Words& words, int hosts) {
    Words made = make_arguments(server(words), on("/f", hosts));
    CHECK(Words(made.begin(), made.begin() + 3) == start);
    CHECK(Words(made.end() - 3, made.end()) == Words{"--", "serve.py", "--nnodes=9"});
    return Words(made.begin() + 3, made.end() - 3);
  };
  CHECK(arguments({"--nnodes=3", "--spares=1"}, 3) == Words{"--nnodes=3", "--spares=1"});
  CHECK(arguments({"--nnodes=3", "--spares=1"}, 2) ==
        Words{"--nnodes=3", "--spares=1", "--nnodes=2", "--spares=0"});
  CHECK(arguments({"--nnodes=2:3"}, 2) == Words{"--nnodes=2:3", "--nnodes=2:2"});
  CHECK(arguments({"--quiet"}, 3) == Words{"--nnodes=3", "--quiet"});
}

TEST_CASE("a program's ddprun knows its place, its port and the number of its replica") {
  Program program = server({});
  program.ready = "8001";
  program.replica = 1;
  program.replicas = 4;
  ProgramPlace place = on("/f", 2);
  place.share.all_gpus = false;
  place.visible_variable = "CUDA_VISIBLE_DEVICES";
  place.visible_gpus = "2,3";
  const facts::Environment own = make_environment(program, place, {{"MASTER_PORT", "1"}, {"HOME", "/h"}});
  CHECK(own.at("HOME") == "/h");
  CHECK_FALSE(own.contains("MASTER_PORT"));
  CHECK(own.at("MASTER_ADDR") == "10.0.0.1");
  CHECK(own.at("DDPRUN_READY_PORT") == "8001");
  CHECK(own.at("DDPRUN_READY_FILE") == "/f/ready");
  CHECK(own.at("DDPRUN_REPLICAS") == "4");
  CHECK(own.at("CUDA_VISIBLE_DEVICES") == "2,3");
  CHECK(own_program(own) == "server 1");
  CHECK(own_program({{"DDPRUN_PROGRAM", "a\nb"}}) == "a\\x0ab");
  CHECK(own_program({}).empty());
}

TEST_CASE("the report of a program is read where it has been written, also where it was named") {
  const os::TempDir folder(std::optional<std::string>{});
  ProgramChild child(server({}), on(folder.path(), 2));
  CHECK(child.read_report().empty());
  std::ofstream(folder.path() + "/report.json") << "own";
  CHECK(child.read_report() == "own");
  std::ofstream(folder.path() + "/named") << "named";
  CHECK(ProgramChild(server({"--report=" + folder.path() + "/named"}), on(folder.path(), 2)).read_report() ==
        "named");
}
