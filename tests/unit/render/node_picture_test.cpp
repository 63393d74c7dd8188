// Every scene of tests/support/node_scenes is drawn as the files of tests/data/pictures say.
// DDPRUN_ACCEPT=1 writes the present pictures as the expected ones and fails, so that they are looked at.
#include "render/node_picture.hpp"

#include <cstdlib>
#include <fstream>

#include "allocation_cases.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "node_builder.hpp"
#include "node_scenes.hpp"

using namespace ddprun;
using namespace ddprun::render;
using namespace ddprun::test;

namespace {

void check_file(const std::filesystem::path& path, const std::string& drawn) {
  if (std::getenv("DDPRUN_ACCEPT") != nullptr) {
    std::ofstream(path) << drawn;
    FAIL_CHECK("wrote " << path.string() << "; look at the difference");
    return;
  }
  CHECK(read_text(path) == drawn);
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (const std::string& line : split(text, '\n')) widest = std::max(widest, line.size());
  return widest;
}

std::string line_with(const std::string& picture, const std::string& part) {
  for (const std::string& line : split(picture, '\n')) {
    if (line.find(part) != std::string::npos) return line;
  }
  return "";
}

}  // namespace

TEST_CASE("nodes are drawn as their files say") {
  for (const NodeScene& scene : node_scenes()) {
    DYNAMIC_SECTION(scene.name) {
      const std::string picture = draw_node_text(scene.plan, scene.snapshot);
      check_file(data_folder("pictures") / (scene.name + ".txt"), picture);
      CHECK(widest_line(picture) <= 98);
    }
  }
}

TEST_CASE("no line of any picture is too wide for the plan as text") {
  USUAL_SEED(seed, 4);
  std::mt19937 random(seed);
  for (int i = 0; i < rounds(20); ++i) {
    const NodeScene scene = random_scene(random);
    const std::string picture = draw_node_text(scene.plan, scene.snapshot);
    CAPTURE(i, picture);
    CHECK(widest_line(picture) <= 98);
  }
}

TEST_CASE("without a topology there is no picture") {
  NodeScene scene = make_scene("none", build_topology({}), 1);
  scene.snapshot.host.topology.reset();
  CHECK(draw_node_text(scene.plan, scene.snapshot).empty());
}

TEST_CASE("a core whose threads two workers hold is theirs together") {
  NodeScene scene = make_scene("halves", build_topology({1, 1, 1, 2, 2, true, 0}), 2);
  scene.plan.planned[0].binding.cpus = {0, 1};
  scene.plan.planned[1].binding.cpus = {2};
  CHECK(line_with(draw_node_text(scene.plan, scene.snapshot), "node 0") == "  node 0  0-1    #0");
}

TEST_CASE("a core of which one thread is held is that worker's") {
  NodeScene scene = make_scene("half", build_topology({1, 1, 1, 2, 2, true, 0}), 1);
  scene.plan.planned[0].binding.cpus = {3};
  scene.plan.binding.spare = {0, 1, 2};
  CHECK(line_with(draw_node_text(scene.plan, scene.snapshot), "node 0") == "  node 0  0-1    .0");
}

TEST_CASE("a GPU without an address stands where its CPUs are") {
  NodeScene scene = make_scene("imagined", build_topology({2, 1, 1, 2, 1, true, 0}), 1);
  scene.snapshot.host.gpus = {{"nvidia", "", "", {2, 3}}};
  scene.plan.planned[0].gpus = {0};
  CHECK(line_with(draw_node_text(scene.plan, scene.snapshot), "node 1") ==
        "  node 1  2-3   ++       [0] GPU 0");
}

TEST_CASE("a device near a package but none of its NUMA nodes stands below them") {
  facts::Topology topology = build_topology({2, 2, 1, 2, 1, true, 0});
  add_device(topology, facts::DeviceKind::network, "0000:01:00.0", -1, {"eth0"});
  topology.devices[0].cpus = {4, 5, 6, 7};
  const NodeScene scene = make_scene("package", std::move(topology), 1);
  const std::string picture = draw_node_text(scene.plan, scene.snapshot);
  CHECK(line_with(picture, "eth0") == "  all                    eth0");
  CHECK(picture.find("node 3") < picture.find("eth0"));
}

TEST_CASE("a GPU's memory is drawn in the package it is nearest to") {
  facts::Topology topology = build_topology({2, 1, 1, 2, 1, true, 0});
  add_memory(topology, 2, std::int64_t{95} << 30);
  topology.distances = {{10, 40, 80}, {40, 10, 20}, {80, 20, 10}};
  NodeScene scene = make_scene("memory", std::move(topology), 1);
  const std::string near = draw_node_text(scene.plan, scene.snapshot);
  CHECK(near.find("package 1") < near.find("memory only, 95 GiB"));
  CHECK(near.find("near no single package") == std::string::npos);

  scene.snapshot.host.topology->distances = {{10, 40, 20}, {40, 10, 20}, {20, 20, 10}};
  const std::string between = draw_node_text(scene.plan, scene.snapshot);
  CHECK(between.find("near no single package\n  node 2        memory only, 95 GiB") != std::string::npos);
}
