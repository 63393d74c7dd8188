// The machines of tests/data/nodes: their hand-written maps, and for every number of workers and several
// masks what the product answers (bindings.txt, a line each: mask, way, workers, then CPUs@memory of each).
// DDPRUN_ACCEPT=1 writes the present answers as the expected ones and fails, so that they are looked at.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <functional>

#include "allocation_cases.hpp"
#include "catch.hpp"
#include "facts/proc_text.hpp"
#include "node_cases.hpp"

using namespace ddprun;
using namespace ddprun::placement;
using namespace ddprun::test;

namespace {

using Cpus = std::vector<int>;

struct Mask {
  const char* name;
  // Which hardware thread of which core is left.
  std::function<bool(const facts::Topology&, std::size_t core, std::size_t thread)> leaves;
};

std::vector<Mask> masks() {
  return {{"whole", [](const facts::Topology&, std::size_t, std::size_t) { return true; }},
          {"holes", [](const facts::Topology&, std::size_t core, std::size_t) { return core % 3 != 1; }},
          {"one-core", [](const facts::Topology& node, std::size_t core,
                          std::size_t) { return core == node.cores.size() / 2 + 1; }},
          {"half-pairs",
           [](const facts::Topology&, std::size_t core, std::size_t thread) { return thread == core % 2; }},
          {"last-socket", [](const facts::Topology& node, std::size_t core, std::size_t) {
             const facts::Core& last = node.cores.back();
             return node.packages > 1 ? node.cores[core].package == last.package
                                      : node.cores[core].node == last.node && core % 2 == 1;
           }}};
}

Cpus allowed_by(const NodeCase& node, const Mask& mask) {
  Cpus allowed;
  for (std::size_t core = 0; core < node.topology.cores.size(); ++core) {
    const Cpus& own = node.topology.cores[core].cpus;
    for (std::size_t thread = 0; thread < own.size(); ++thread) {
      if (mask.leaves(node.topology, core, thread)) allowed.push_back(own[thread]);
    }
  }
  std::sort(allowed.begin(), allowed.end());
  Cpus both;
  std::set_intersection(allowed.begin(), allowed.end(), node.allowed.begin(), node.allowed.end(),
                        std::back_inserter(both));
  return both;
}

std::string in_short(const facts::Binding& worker) {
  std::string text = worker.cpus.empty() ? "-" : facts::render_cpu_list(worker.cpus);
  if (worker.policy == facts::MemoryPolicy::preferred)
    text += "@" + facts::render_cpu_list(worker.memory_nodes);
  return text;
}

std::string line_of(const PlacementRequest& request, const Placement& placement, const char* mask) {
  std::string line =
      fmt::format("{} {} {}:", mask, options::to_string(request.bind.mode), request.near_gpus.size());
  for (const facts::Binding& worker : placement.workers) line += " " + in_short(worker);
  if (!placement.spare.empty()) line += " spare " + facts::render_cpu_list(placement.spare);
  line += "; " + placement.origin;
  for (const allocation::Notice& notice : placement.notices) line += "; " + notice.what;
  return line + "\n";
}

std::string bindings_of(const NodeCase& node) {
  std::string text;
  for (const Mask& mask : masks()) {
    PlacementRequest request = request_for(node, 0);
    request.allowed_cpus = allowed_by(node, mask);
    for (int workers = 1; workers <= 16; ++workers) {
      request.near_gpus = near_gpus(node, workers);
      const Placement placement = place_workers(request);
      text += line_of(request, placement, mask.name);
      if (workers > 1 && placement.workers.front().cpus.empty()) break;  // nor will more workers be bound
    }
  }
  const int usual = node.devices.empty() ? 4 : static_cast<int>(node.devices.size());
  for (const options::BindMode mode : {options::BindMode::node, options::BindMode::socket,
                                       options::BindMode::exclusive, options::BindMode::core_complex}) {
    for (const int workers : {1, usual}) {
      PlacementRequest request = request_for(node, workers);
      request.bind = {mode, {}, false, "--bind"};
      text += line_of(request, place_workers(request), "whole");
    }
  }
  return text;
}

}  // namespace

TEST_CASE("a worker for each GPU is where the machine's documentation puts it") {
  const auto& nodes = node_cases();
  CHECK(nodes.size() >= 12);
  for (const NodeCase& node : nodes) {
    CAPTURE(node.folder.filename().string());
    const auto devices = node.devices.size();
    const Placement placement = place_workers(request_for(node, static_cast<int>(devices)));
    CHECK(placement.notices.empty());
    for (std::size_t i = 0; i < devices; ++i) {
      CAPTURE(i);
      CHECK(facts::render_cpu_list(placement.workers[i].cpus) ==
            facts::render_cpu_list(node.devices[i].expected));
    }
  }
}

TEST_CASE("bindings are what the machines' files say") {
  for (const NodeCase& node : node_cases()) {
    CAPTURE(node.folder.filename().string());
    const std::filesystem::path path = node.folder / "bindings.txt";
    const std::string found = bindings_of(node);
    if (std::getenv("DDPRUN_ACCEPT") != nullptr) {
      std::ofstream(path) << found;
      FAIL_CHECK("wrote " << path.string() << "; look at the difference");
    } else {
      CHECK(read_text(path) == found);
    }
  }
}
