// The SVG of a node: the laptop's as the file under tests/data/pictures, of all others what every one has.
// DDPRUN_ACCEPT=1 writes the present picture as the expected one and fails, so that it is looked at.
#include <cstdlib>
#include <fstream>

#include "allocation_cases.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "catch.hpp"
#include "error_text.hpp"
#include "node_builder.hpp"
#include "node_scenes.hpp"
#include "plan_node.hpp"
#include "render/node_picture.hpp"

using namespace ddprun;
using namespace ddprun::render;
using namespace ddprun::test;

namespace {

// What stands between '<' and '>', without the declaration.
std::vector<std::string> tags_of(const std::string& svg) {
  std::vector<std::string> tags;
  std::size_t end = 0;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    end = svg.find('>', at);
    if (end == std::string::npos) break;
    tags.push_back(svg.substr(at + 1, end - at - 1));
  }
  REQUIRE(end != std::string::npos);
  REQUIRE(!tags.empty());
  REQUIRE(tags.front().front() == '?');
  tags.erase(tags.begin());
  return tags;
}

// The first element that is not closed, or closed without having been opened.
std::string first_unbalanced(const std::vector<std::string>& tags) {
  std::vector<std::string> open;
  for (const std::string& tag : tags) {
    if (tag.find('<') != std::string::npos) return tag;
    if (tag.back() == '/') continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (name.front() != '/') {
      open.push_back(name);
      continue;
    }
    if (open.empty() || "/" + open.back() != name) return name;
    open.pop_back();
  }
  return open.empty() ? "" : open.back();
}

// Every '&' begins one of these.
bool entities_are_known(const std::string& svg) {
  for (std::size_t at = svg.find('&'); at != std::string::npos; at = svg.find('&', at + 1)) {
    const std::string entity = svg.substr(at, svg.find(';', at) - at + 1);
    if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") return false;
  }
  return true;
}

std::int64_t number_of(const std::string& tag, const std::string& attribute) {
  const std::size_t at = tag.find(" " + attribute + "=\"");
  if (at == std::string::npos) return 0;
  const std::size_t begin = at + attribute.size() + 3;
  return parse_integer(tag.substr(begin, tag.find('"', begin) - begin)).value();
}

// The first rectangle that is not within the document.
std::string first_outside(const std::vector<std::string>& tags) {
  const std::int64_t width = number_of(tags.front(), "width");
  const std::int64_t height = number_of(tags.front(), "height");
  for (const std::string& tag : tags) {
    if (tag.rfind("rect", 0) != 0) continue;
    const bool inside = number_of(tag, "x") >= 0 && number_of(tag, "y") >= 0 &&
                        number_of(tag, "x") + number_of(tag, "width") <= width &&
                        number_of(tag, "y") + number_of(tag, "height") <= height;
    if (!inside) return tag;
  }
  return "";
}

std::size_t count_of_text(const std::string& svg, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a laptop is drawn as its file says") {
  const NodeScene scene = scene_of("laptop");
  const std::string svg = draw_node_svg(scene.plan, scene.snapshot);
  const auto path = data_folder("pictures") / "laptop.svg";
  if (std::getenv("DDPRUN_ACCEPT") != nullptr) {
    std::ofstream(path) << svg;
    FAIL_CHECK("wrote " << path.string() << "; look at the difference");
  }
  CHECK(read_text(path) == svg);
}

TEST_CASE("every picture is well-formed and within its page") {
  USUAL_SEED(seed, 4);
  std::mt19937 random(seed);
  std::vector<NodeScene> scenes = node_scenes();
  for (int i = 0; i < rounds(6); ++i) scenes.push_back(random_scene(random));
  for (const NodeScene& scene : scenes) {
    CAPTURE(scene.name);
    const std::string svg = draw_node_svg(scene.plan, scene.snapshot);
    const std::vector<std::string> tags = tags_of(svg);
    CHECK(first_unbalanced(tags) == "");
    CHECK(entities_are_known(svg));
    CHECK(first_outside(tags) == "");
    CHECK(svg.find("http", svg.find("svg\"") + 4) == std::string::npos);  // nothing is loaded
  }
}

TEST_CASE("a picture has a titled square for each core and says whose it is") {
  const NodeScene scene = scene_of("frontier");
  const std::string svg = draw_node_svg(scene.plan, scene.snapshot);
  CHECK(count_of_text(svg, "<title>CPU ") == 64);
  CHECK(count_of_text(svg, ": not allowed</title>") == 8);
  for (int rank = 0; rank < 8; ++rank)
    CHECK(count_of_text(svg, ": local rank " + std::to_string(rank) + "</title>") == 7);
  CHECK(svg.find(">[01] cxi0/hsn0</text>") != std::string::npos);
  CHECK(svg.find(">rank 3: CPUs 25-31,89-95; memory of node 1, preferred; GPU 3; hsn1</text>") !=
        std::string::npos);
}

TEST_CASE("workers beyond the eighth have the first ones' colours with a pattern") {
  const NodeScene scene = scene_of("many-workers");
  const std::string svg = draw_node_svg(scene.plan, scene.snapshot);
  for (const char* pattern : {"hatch1", "hatch2", "hatch3"}) {
    CHECK(svg.find("id=\"" + std::string(pattern) + "\"") != std::string::npos);
    CHECK(svg.find("fill:url(#" + std::string(pattern) + ")") != std::string::npos);
  }
}

TEST_CASE("names cannot break out of a picture") {
  NodeScene scene = scene_of("dgx-a100");
  change_node(scene.plan, [](plan::NodeProposal& node) { node.host = "n1</text><script>\"&"; });
  scene.plan.binding.origin = "a\x01<b";
  scene.snapshot.host.topology->source = "<!--";
  scene.snapshot.host.topology->devices.back().names = {"<x>&'\xff"};
  const std::string svg = draw_node_svg(scene.plan, scene.snapshot);
  CHECK(first_unbalanced(tags_of(svg)) == "");
  CHECK(entities_are_known(svg));
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find("n1&lt;/text&gt;&lt;script&gt;&quot;&amp;: 2 packages") != std::string::npos);
  CHECK(svg.find("a\\x01&lt;b") != std::string::npos);
}

TEST_CASE("without a topology there is nothing to draw as SVG") {
  NodeScene scene = scene_of("unbound");
  scene.snapshot.host.topology.reset();
  CHECK(error_of([&] { draw_node_svg(scene.plan, scene.snapshot); }) ==
        "cannot draw n1: its topology is not known | leave out --bind none, or give a --topology file | 125");
}
