#include "programs/program.hpp"

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::programs;

namespace {

using Nodes = std::vector<std::vector<int>>;

Program program(const std::string& name, int nodes = 0) {
  Program made;
  made.name = name;
  made.nodes = made.least = nodes;
  return made;
}
Program with(Program program, const std::string& other) {
  program.with = other;
  return program;
}
Program on(Program program, const std::string& nodes) {
  program.node_list = nodes;
  return program;
}
Program workers(Program program, int number, int gpus = -1) {
  program.workers = number;
  program.gpus = gpus;
  return program;
}

const std::vector<std::string> k_hosts{"n1", "n2", "n3", "n4", "n5"};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

std::vector<facts::Core> cores(int number) {
  std::vector<facts::Core> made;
  for (int core = 0; core < number; ++core) made.push_back({{core, core + number}});
  return made;
}

std::vector<Share> share(const std::vector<Program>& programs, int number_of_cores, int gpus) {
  std::vector<const Program*> all;
  for (const Program& each : programs) all.push_back(&each);
  return share_node(all, "n1", cores(number_of_cores), gpus);
}

}  // namespace

TEST_CASE("a lone colon stands between programs, and one behind -- is the script's") {
  using Pieces = std::vector<std::vector<std::string>>;
  CHECK(split_programs({"a.py", "x:y", ":", "--name", "b", "b.py"}) ==
        Pieces{{"a.py", "x:y"}, {"--name", "b", "b.py"}});
  CHECK(split_programs({"--", "a.py", ":", "b"}) == Pieces{{"--", "a.py", ":", "b"}});
  CHECK(split_programs({"a", "::", "b", ":", "c"}) == Pieces{{"a"}, {"b"}, {"c"}});
  CHECK(join_programs({{"a", "x"}, {"b"}}) == std::vector<std::string>{"a", "x", "::", "b"});
  CHECK(split_programs({"a.py"}).size() == 1);
  CHECK(split_programs({}).size() == 1);
  for (const auto& words : Pieces{{":", "a"}, {"a", ":"}, {"a", ":", ":", "b"}})
    CHECK(refusal([&] { split_programs(words); }) == "there is no program on one side of a ':'");
  std::vector<std::string> many{"a"};
  for (std::size_t i = 0; i < k_most_programs; ++i) many.insert(many.end(), {":", "a"});
  CHECK(refusal([&] { split_programs(many); }) == "the job has 65 programs, more than 64");
}

TEST_CASE("programs have the names of their scripts, each once") {
  std::vector<Program> all{program(""), program("server"), program(""), program(""), program("")};
  settle_names(all, {"/u/train.py", "x", "pkg.train", "7b-model.sh", "a b"});
  std::vector<std::string> names;
  for (const Program& each : all) names.push_back(each.name);
  CHECK(names == std::vector<std::string>{"train", "server", "train-2", "program-7b-model", "a-b"});
  CHECK(variable_part("server-a") == "SERVER_A");
}

TEST_CASE("programs that name others wrongly are refused by name") {
  const auto settle = [](std::vector<Program> all) {
    return refusal([&] { settle_names(all, std::vector<std::string>(all.size(), "s.py")); });
  };
  CHECK(settle({program("a"), program("a")}) == "two programs have the name a");
  CHECK(settle({program("train"), with(program("data"), "trian")}) ==
        "program data: --with names no program of this job: 'trian'");
  Program first = program("a"), second = program("b");
  first.after = {"b"};
  second.after = {"a"};
  CHECK(settle({first, second}) == "program a: --after leads back to it");
  first.after = {"a"};
  CHECK(settle({first, program("b")}) == "program a: --after leads back to it");
  CHECK(settle({with(program("a"), "b"), with(program("b"), "a")}) == "program a: --with leads back to it");
  CHECK(settle({program("a"), on(with(program("b"), "a"), "0")}) ==
        "program b: --with and --nodes contradict each other");
}

TEST_CASE("nodes are given out in the order of the job, and the one program without a number has the rest") {
  CHECK(place({program("train", 3), program("server", 1), program("more", 1)}, k_hosts) ==
        Nodes{{0, 1, 2}, {3}, {4}});
  CHECK(place({program("train"), program("server", 2)}, k_hosts) == Nodes{{0, 1, 2}, {3, 4}});
  CHECK(place({program("train", 2), program("server", 1)}, k_hosts) == Nodes{{0, 1}, {2}});
  CHECK(place({program("train", 3), with(program("data"), "train"), with(program("log", 1), "data"),
               program("server", 2)},
              k_hosts) == Nodes{{0, 1, 2}, {0, 1, 2}, {0}, {3, 4}});
  CHECK(place({program("train"), on(program("server"), "0,4"), on(program("log"), "n[2,4]")}, k_hosts) ==
        Nodes{{2}, {0, 4}, {1, 3}});
  CHECK(place({program("a"), program("b", 1), with(program("c"), "a")}, {"vm"}) == Nodes{{0}, {0}, {0}});
}

TEST_CASE("with too few nodes the later programs give up spares and nodes that they can do without") {
  Program server = program("server", 3), more = program("more", 2);
  server.least = 1;
  more.least = 1;
  const std::vector<Program> all{program("train"), server, more};
  CHECK(least_nodes({program("train", 2), server, more, with(program("data"), "train")}) == 4);
  CHECK(least_nodes({program("train", 2), program("x", 1)}) == 0);
  CHECK(least_nodes(all) == 0);
  CHECK(place(all, {"n1", "n2", "n3", "n4", "n5", "n6"}) == Nodes{{0}, {1, 2, 3}, {4, 5}});
  CHECK(place(all, {"n1", "n2", "n3", "n4", "n5"}) == Nodes{{0}, {1, 2, 3}, {4}});
  CHECK(place(all, {"n1", "n2", "n3"}) == Nodes{{0}, {1}, {2}});
  CHECK(refusal([&] {
          place(all, {"n1", "n2"});
        }).starts_with("the programs ask for more nodes than the job has, 2"));
}

TEST_CASE("programs that do not fit the nodes are refused") {
  const auto placed = [](const std::vector<Program>& all, const std::vector<std::string>& hosts = k_hosts) {
    return refusal([&] { place(all, hosts); });
  };
  CHECK(placed({program("train", 4), program("server", 2)}) ==
        "the programs ask for more nodes than the job has, 5: train 4, server 2");
  CHECK(placed({program("train"), program("server", 5)}) ==
        "the programs ask for more nodes than the job has, 5: server 5, train the others");
  CHECK(placed({program("train"), program("server")}) ==
        "the programs train and server do not say how many nodes they take");
  CHECK(placed({program("train", 2), program("server")}, {"vm"}) ==
        "program train: it asks for 2 nodes, and the job has one");
  CHECK(placed({program("train"), on(program("server"), "n[2,9]")}) ==
        "program server: --nodes names n9, which is no host of this job");
  CHECK(placed({program("train"), on(program("server"), "5")}).starts_with("program server: --nodes"));
  CHECK(placed({program("train"), on(program("server", 1), "1,2")}) ==
        "program server: --nodes names 2 nodes, and --nnodes asks for 1");
  CHECK(placed({program("train", 1), with(program("data", 2), "train")}) ==
        "program data: it asks for 2 nodes, and train has 1");
}

TEST_CASE("cores are shared in proportion to the workers, none twice, and a program alone has all") {
  CHECK(share({workers(program("train"), 3)}, 8, 0) == std::vector<Share>{{{}, {}, true, 3}});
  const auto shares = share({workers(program("train"), 3), workers(with(program("data"), "train"), 1)}, 8, 0);
  CHECK(shares[0].cpus == std::vector<int>{0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13});
  CHECK(shares[1].cpus == std::vector<int>{6, 7, 14, 15});
  const auto uneven =
      share({workers(program("train"), 100), workers(program("a"), 1), workers(program("b"), 1)}, 4, 0);
  CHECK(uneven[0].cpus == std::vector<int>{0, 1, 4, 5});
  CHECK(uneven[1].cpus == std::vector<int>{2, 6});
  CHECK(uneven[2].cpus == std::vector<int>{3, 7});
  CHECK(share({program("a"), program("b")}, 1, 0)[0].cpus.empty());  // too few: all have all
}

TEST_CASE("GPUs go to the workers that need one, and the rest to the program that asks for no number") {
  const auto shares = share(
      {program("train"), workers(program("reward"), 1), workers(with(program("data"), "train"), 4)}, 16, 4);
  CHECK(shares[0].gpus == std::vector<int>{0, 1, 2});
  CHECK(shares[0].workers == 3);
  CHECK(shares[1].gpus == std::vector<int>{3});
  CHECK(shares[2].gpus.empty());
  CHECK_FALSE(shares[2].all_gpus);
  const auto wide =
      share({workers(program("train"), 1, 2), workers(with(program("judge"), "train"), 2, 1)}, 16, 4);
  CHECK(wide[0].gpus == std::vector<int>{0, 1});
  CHECK(wide[1].gpus == std::vector<int>{2, 3});
  CHECK(share({program("train")}, 16, 4)[0].all_gpus);
  CHECK(refusal([] {
          share({workers(program("train"), 3), workers(program("server"), 2)}, 16, 4);
        }) == "n1 has 4 GPUs, and its programs ask for 5: train 3, server 2");
  CHECK(share({workers(program("train"), 3), workers(program("server"), 2)}, 16, 0)[1].all_gpus);
}

TEST_CASE("a program is the same after its way through a command line") {
  Program made = workers(on(program("server", 2), "1-2"), 4, 1);
  made.words = {"--", "serve.py", "a b"};
  made.after = {"x", "y"};
  made.ready = "8000";
  made.ready_timeout = 1500;
  made.on_exit = options::OnExit::restart;
  CHECK(nlohmann::json::parse(nlohmann::json(made).dump()).get<Program>() == made);
}
