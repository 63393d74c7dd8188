#include "node_scenes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "allocation_cases.hpp"
#include "base/error.hpp"
#include "node_builder.hpp"
#include "options/options.hpp"
#include "plan_node.hpp"

namespace ddprun::test {

namespace {

constexpr std::int64_t k_gib = std::int64_t{1} << 30;

std::vector<int> sorted(const std::set<int>& cpus) { return {cpus.begin(), cpus.end()}; }

plan::PlannedWorker& worker(NodeScene& scene, int index) {
  return scene.plan.planned.at(static_cast<std::size_t>(index));
}

// Cores by their place in the topology, first to last.
void bind(NodeScene& scene, int index, std::size_t first, std::size_t last,
          facts::MemoryPolicy policy = facts::MemoryPolicy::preferred) {
  const facts::Topology& topology = *scene.snapshot.host.topology;
  const std::set<int> allowed(scene.snapshot.host.allowed_cpus.begin(),
                              scene.snapshot.host.allowed_cpus.end());
  std::set<int> cpus;
  std::set<int> nodes;
  for (std::size_t i = first; i <= last; ++i) {
    for (const int cpu : topology.cores.at(i).cpus) {
      if (allowed.count(cpu) == 0) continue;
      cpus.insert(cpu);
      nodes.insert(topology.nodes.at(static_cast<std::size_t>(topology.cores[i].node)).number);
    }
  }
  worker(scene, index).binding = {sorted(cpus), sorted(nodes), policy};
}

// What the workers leave is spare.
NodeScene finished(NodeScene scene, const std::string& origin) {
  std::set<int> spare(scene.snapshot.host.allowed_cpus.begin(), scene.snapshot.host.allowed_cpus.end());
  for (const plan::PlannedWorker& each : scene.plan.planned) {
    for (const int cpu : each.binding.cpus) spare.erase(cpu);
  }
  scene.plan.binding = {origin, sorted(spare)};
  return scene;
}

void forbid(NodeScene& scene, const std::set<int>& cpus) {
  auto& allowed = scene.snapshot.host.allowed_cpus;
  allowed.erase(std::remove_if(allowed.begin(), allowed.end(), [&](int cpu) { return cpus.count(cpu) == 1; }),
                allowed.end());
}

NodeScene laptop() {
  NodeScene scene = make_scene("laptop", build_topology({1, 1, 1, 4, 2, false, 16 * k_gib}), 2);
  bind(scene, 0, 0, 1, facts::MemoryPolicy::untouched);
  bind(scene, 1, 2, 3, facts::MemoryPolicy::untouched);
  return finished(std::move(scene), "even split of 4 cores");
}

NodeScene dgx_a100() {
  facts::Topology topology = build_topology({2, 4, 4, 4, 2, true, 126 * k_gib});
  const std::vector<std::string> buses{"07", "0f", "47", "4e", "87", "90", "b7", "bd"};
  const std::vector<std::string> cards{"0c", "12", "4b", "54", "8d", "94", "ba", "cc"};
  const std::vector<int> nodes{3, 3, 1, 1, 7, 7, 5, 5};
  for (std::size_t i = 0; i < buses.size(); ++i) {
    add_device(topology, facts::DeviceKind::gpu, fmt::format("0000:{}:00.0", buses[i]), nodes[i]);
    const std::size_t card = i + (i > 3 ? 2 : 0);
    add_device(topology, facts::DeviceKind::network, fmt::format("0000:{}:00.0", cards[i]), nodes[i],
               {fmt::format("mlx5_{}", card), fmt::format("ib{}", card)});
  }
  add_device(topology, facts::DeviceKind::network, "0000:61:00.0", 2, {"mlx5_4", "enp97s0f0"});
  add_device(topology, facts::DeviceKind::network, "0000:e1:00.0", 6, {"mlx5_10", "enp225s0f0"});
  NodeScene scene = make_scene("dgx-a100", std::move(topology), 8);
  for (int i = 0; i < 8; ++i) {
    const auto first = static_cast<std::size_t>(nodes[static_cast<std::size_t>(i)] * 16 + i % 2 * 8);
    bind(scene, i, first, first + 7);
    scene.snapshot.host.gpus[static_cast<std::size_t>(i)].uuid = fmt::format("GPU-{:08}", i);
    worker(scene, i).gpus = {i};
    worker(scene, i).network_card = fmt::format("mlx5_{}", i + (i > 3 ? 2 : 0));
  }
  return finished(std::move(scene), "cores near each GPU");
}

NodeScene gh200() {
  facts::Topology topology = build_topology({4, 1, 1, 72, 1, true, 120 * k_gib});
  topology.distances.resize(36, std::vector<int>(36, 40));
  for (int number = 4; number < 36; ++number) {
    const bool memory = number % 8 == 4;
    add_memory(topology, number, memory ? 95 * k_gib : 0);
    topology.distances[static_cast<std::size_t>(number)][static_cast<std::size_t>((number - 4) / 8)] = 20;
  }
  for (int i = 0; i < 4; ++i) {
    add_device(topology, facts::DeviceKind::gpu, fmt::format("00{}9:01:00.0", i), i);
    add_device(topology, facts::DeviceKind::network, fmt::format("00{}2:01:00.0", i), i,
               {fmt::format("cxi{}", i)});
  }
  NodeScene scene = make_scene("gh200", std::move(topology), 4);
  for (int i = 0; i < 4; ++i) {
    bind(scene, i, static_cast<std::size_t>(i * 72), static_cast<std::size_t>(i * 72 + 71));
    worker(scene, i).gpus = {i};
  }
  return finished(std::move(scene), "cores near each GPU");
}

// The first core of each L3 is the system's.
NodeScene frontier() {
  facts::Topology topology = build_topology({1, 4, 2, 8, 2, true, 128 * k_gib});
  const std::vector<std::string> buses{"c1", "c6", "c9", "ce", "d1", "d6", "d9", "de"};
  const std::vector<int> caches{6, 7, 2, 3, 0, 1, 4, 5};
  for (std::size_t i = 0; i < buses.size(); ++i)
    add_device(topology, facts::DeviceKind::gpu, fmt::format("0000:{}:00.0", buses[i]), caches[i] / 2);
  const std::vector<int> card_nodes{3, 1, 0, 2};
  for (std::size_t i = 0; i < card_nodes.size(); ++i) {
    add_device(topology, facts::DeviceKind::network, fmt::format("0000:{}:00.0", 0xc2 + i), card_nodes[i],
               {fmt::format("cxi{}", i), fmt::format("hsn{}", i)});
  }
  NodeScene scene = make_scene("frontier", std::move(topology), 8);
  std::set<int> reserved;
  for (int cpu = 0; cpu < 128; cpu += 8) reserved.insert(cpu);
  forbid(scene, reserved);
  for (int i = 0; i < 8; ++i) {
    const auto first = static_cast<std::size_t>(caches[static_cast<std::size_t>(i)]) * 8;
    bind(scene, i, first, first + 7);
    worker(scene, i).gpus = {i};
    worker(scene, i).network_card = fmt::format("hsn{}", i / 2);
  }
  return finished(std::move(scene), "cores near each GPU");
}

NodeScene unbound() {
  facts::Topology topology = build_topology({2, 1, 1, 8, 2, true, 64 * k_gib});
  for (int i = 0; i < 2; ++i)
    add_device(topology, facts::DeviceKind::gpu, fmt::format("0000:{}a:00.0", i + 1), i);
  NodeScene scene = make_scene("unbound", std::move(topology), 2);
  for (int i = 0; i < 2; ++i) worker(scene, i).gpus = {i};
  scene.plan.binding.origin = "CPUs that were chosen for this task";
  return scene;
}

// Two workers a NUMA node that both hold all of it; the firmware does not tell where the GPUs are.
NodeScene shared_cores() {
  facts::Topology topology = build_topology({2, 1, 4, 4, 1, true, 64 * k_gib});
  for (int i = 0; i < 3; ++i)
    add_device(topology, facts::DeviceKind::gpu, fmt::format("0000:{}a:00.0", i + 1), -1);
  NodeScene scene = make_scene("shared-cores", std::move(topology), 3);
  bind(scene, 0, 0, 15, facts::MemoryPolicy::bind);
  bind(scene, 1, 0, 15, facts::MemoryPolicy::bind);
  bind(scene, 2, 16, 31, facts::MemoryPolicy::bind);
  for (int i = 0; i < 3; ++i) worker(scene, i).gpus = {i};
  return finished(std::move(scene), "all cores of the GPU's NUMA node");
}

// One of four tasks that share a mask: what the others take is neither its own nor spare.
NodeScene one_task() {
  facts::Topology topology = build_topology({1, 4, 2, 8, 2, true, 64 * k_gib});
  const std::vector<std::string> buses{"03", "41", "81", "c1"};
  for (std::size_t i = 0; i < buses.size(); ++i)
    add_device(topology, facts::DeviceKind::gpu, fmt::format("0000:{}:00.0", buses[i]),
               3 - static_cast<int>(i));
  NodeScene scene = make_scene("one-task", std::move(topology), 1);
  change_node(scene.plan, [](plan::NodeProposal& node) { node.local_world_size = 4; });
  worker(scene, 0).local_rank = {2};
  worker(scene, 0).rank = {6};
  worker(scene, 0).gpus = {2};
  bind(scene, 0, 16, 30);
  scene = finished(std::move(scene), "cores near each GPU");
  scene.plan.binding.spare = {15, 31, 47, 63, 79, 95, 111, 127};
  return scene;
}

NodeScene many_workers() {
  NodeScene scene = make_scene("many-workers", build_topology({2, 1, 16, 8, 1, true, 256 * k_gib}), 128);
  for (int i = 0; i < 128; ++i)
    bind(scene, i, static_cast<std::size_t>(2 * i), static_cast<std::size_t>(2 * i + 1));
  return finished(std::move(scene), "even split of 256 cores");
}

using Random = std::mt19937;

int pick(Random& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

// Of at most 256 hardware threads.
NodeShape random_shape(Random& random) {
  NodeShape shape;
  shape.threads = 1 << pick(random, 0, 2);
  int left = 256 / shape.threads;
  for (int* count : {&shape.packages, &shape.nodes, &shape.caches}) {
    *count = pick(random, 1, std::min(left, 8));
    left /= *count;
  }
  shape.cores = pick(random, 1, left);
  shape.siblings_apart = pick(random, 0, 1) == 1;
  return shape;
}

void add_random_devices(facts::Topology& topology, Random& random) {
  const int nodes = static_cast<int>(topology.nodes.size());
  const int devices = pick(random, 0, 20);
  for (int i = 0; i < devices; ++i) {
    const bool gpu = pick(random, 0, 1) == 1;
    add_device(topology, gpu ? facts::DeviceKind::gpu : facts::DeviceKind::network,
               std::to_string(10000 + i) + ":c1:00.0", pick(random, -1, nodes - 1),
               {"mlx5_" + std::to_string(i), "a-long-name-of-an-interface" + std::to_string(i)});
  }
  if (pick(random, 0, 1) == 1) add_memory(topology, 200, 1);
}

}  // namespace

NodeScene make_scene(const std::string& name, facts::Topology topology, int workers) {
  options::Options options;
  options.command = {"train.py"};
  options.workers = options::parse_workers_per_node(std::to_string(workers), "--nproc-per-node");
  NodeScene scene{name, read_case_snapshot(""), {}};
  facts::HostFacts& host = scene.snapshot.host;
  host.allowed_cpus.clear();
  for (const facts::Core& core : topology.cores)
    host.allowed_cpus.insert(host.allowed_cpus.end(), core.cpus.begin(), core.cpus.end());
  std::sort(host.allowed_cpus.begin(), host.allowed_cpus.end());
  host.allowed_cores = static_cast<int>(topology.cores.size());
  host.online_cpus = static_cast<int>(host.allowed_cpus.size());
  scene.plan = plan_node(scene.snapshot, options);
  for (const facts::PciDevice& device : topology.devices) {
    if (device.kind == facts::DeviceKind::gpu) host.gpus.push_back({"nvidia", device.address});
  }
  host.topology = std::move(topology);
  return scene;
}

const std::vector<NodeScene>& node_scenes() {
  static const std::vector<NodeScene> k_scenes{laptop(),  dgx_a100(),     gh200(),    frontier(),
                                               unbound(), shared_cores(), one_task(), many_workers()};
  return k_scenes;
}

NodeScene scene_of(const std::string& name) {
  for (const NodeScene& scene : node_scenes()) {
    if (scene.name == name) return scene;
  }
  throw Error("no scene has the name " + name);
}

NodeScene random_scene(std::mt19937& random) {
  const NodeShape shape = random_shape(random);
  facts::Topology topology = build_topology(shape);
  add_random_devices(topology, random);
  NodeScene scene = make_scene("random", std::move(topology), pick(random, 1, 40));
  const int cpus = static_cast<int>(cpus_of(shape).size());
  for (plan::PlannedWorker& worker : scene.plan.planned) {
    for (int cpu = 0; cpu < cpus; ++cpu) {
      if (pick(random, 0, 3) == 0) worker.binding.cpus.push_back(cpu);
    }
    for (std::size_t i = 0; i < scene.snapshot.host.gpus.size(); ++i) {
      if (pick(random, 0, 3) == 0) worker.gpus.push_back(static_cast<int>(i));
    }
    worker.binding.memory_nodes = {0, 2, 4, 6, 8, 10, 200};
    worker.binding.policy = facts::MemoryPolicy::preferred;
    worker.network_card = "a-long-name-of-an-interface1";
    worker.rank = {10000000};
  }
  for (int cpu = 0; cpu < cpus; cpu += 2) scene.plan.binding.spare.push_back(cpu);
  return scene;
}

}  // namespace ddprun::test
