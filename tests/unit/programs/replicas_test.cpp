#include "programs/replicas.hpp"

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::programs;

namespace {

Program server(int workers, int gpus = -1) {
  Program made;
  made.name = "server";
  made.nodes = 2;
  made.workers = workers;
  made.gpus = gpus;
  made.ready = "8000";
  made.independent = true;
  made.words = {"--logs=l/server", "--label=[server {rank} {host}] ", "--report=r", "--", "serve.py",
                "--logs=x"};
  return made;
}

const std::vector<JobNode> k_nodes{{"n1", "10.0.0.1", 4}, {"n2", "10.0.0.2", 4}, {"n3", "10.0.0.3", 4}};

}  // namespace

TEST_CASE("each worker of an independent program is a replica with a ddprun of its own") {
  Program train;
  train.name = "train";
  const PlacedPrograms placed = place_programs({train, server(2)}, k_nodes);
  REQUIRE(placed.programs.size() == 5);
  CHECK(placed.nodes == std::vector<std::vector<int>>{{0}, {1}, {1}, {2}, {2}});
  CHECK(placed.ranks == std::vector<int>{4, 1, 1, 1, 1});
  const Program& last = placed.programs.back();
  CHECK(name_of(last) == "server 3");
  CHECK(name_of(placed.programs.front()) == "train");
  CHECK(last.replicas == 4);
  CHECK(last.ready == "8001");
  CHECK(last.words == std::vector<std::string>{"--logs=l/server/3", "--label=[server 3 {host}] ",
                                               "--report=r.3", "--nnodes=1", "--nproc-per-node=1",
                                               "--env=RANK=3", "--env=WORLD_SIZE=4", "--rdzv-id=server-3",
                                               "--", "serve.py", "--logs=x"});
}

TEST_CASE("replicas get the GPUs and cores of their program, each its own") {
  Program logs;
  logs.name = "logs";
  logs.with = "server";
  for (const auto& [program, count, gpus] :
       {std::tuple(server(0), 4, 1), std::tuple(server(2, 2), 2, 2), std::tuple(server(2), 2, 1)}) {
    const PlacedPrograms placed = place_programs({program, logs}, {k_nodes[0], k_nodes[1]});
    REQUIRE(placed.programs.size() == static_cast<std::size_t>(2 * count + 1));
    std::vector<facts::Core> cores;
    for (int core = 0; core < 20; ++core) cores.push_back({{core}});
    const auto shares = share_node(placed.programs, placed.nodes, 1, "n2", cores, 4);
    REQUIRE(shares.size() == static_cast<std::size_t>(count + 1));
    std::set<int> seen, cpus;
    for (const auto& [number, share] : shares) {
      CHECK(share.gpus.size() == (number == placed.programs.size() - 1 ? 0 : static_cast<std::size_t>(gpus)));
      for (const int gpu : share.gpus) CHECK(seen.insert(gpu).second);
      for (const int cpu : share.cpus) CHECK(cpus.insert(cpu).second);
    }
  }
}

TEST_CASE("the table for other programs has one entry a program, with its replicas") {
  Program train;
  train.name = "train";
  const PlacedPrograms placed = place_programs({train, server(2)}, k_nodes);
  auto table = make_table(placed, k_nodes);
  REQUIRE(table.size() == 2);
  CHECK(table[0].ranks == 4);
  CHECK(table[0].replicas.empty());
  CHECK(table[1].ranks == 4);
  CHECK(table[1].hosts == std::vector<std::string>{"n2", "n3"});
  REQUIRE(table[1].replicas.size() == 4);
  CHECK(table[1].replicas[3].port == 8001);
  CHECK(table[1].replicas[3].address == "10.0.0.3");
  const ProgramState none{"waiting", 0, {}}, ready{"ready", 1, {"10.0.0.2"}}, running{"running", 0, {}};
  update_table(table, placed.programs, {none, ready, ready, running, {"ended", 2, {}}});
  CHECK(table[0].state == "waiting");
  CHECK(table[1].state == "ready");
  CHECK(table[1].ready == std::vector<std::string>{"10.0.0.2"});
  CHECK(table[1].attempt == 4);
  CHECK(table[1].replicas[0].state == "ready");
  CHECK(table[1].replicas[3].state == "ended");
  CHECK(table[1].replicas[3].attempt == 2);
}
