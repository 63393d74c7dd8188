// What placement promises, on random nodes. DDPRUN_TEST_TIMES=50 asks for a hundred thousand of them.
#include <fmt/format.h>

#include <algorithm>
#include <bitset>

#include "catch.hpp"
#include "facts/proc_text.hpp"
#include "random_nodes.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::placement;
using namespace ddprun::test;

namespace {

constexpr int k_nodes = 2'000;

using Cpus = std::bitset<RandomNodes::k_most_cpus>;

Cpus as_set(const std::vector<int>& cpus) {
  Cpus set;
  for (const int cpu : cpus) set.set(static_cast<std::size_t>(cpu));
  return set;
}

struct Unit {
  Cpus cpus;  // the allowed ones of a core
  int node = 0;
};

struct Worker {
  Cpus cpus;
  Cpus near;  // any of its GPUs; nothing where that is not known or everywhere
};

// A request and its answer, made easy to ask.
struct Scene {
  explicit Scene(const PlacementRequest& asked) : Scene(asked, place_workers(asked)) {}

  Scene(const PlacementRequest& asked, Placement answer)
      : request(asked), placement(std::move(answer)), allowed(as_set(asked.allowed_cpus)) {
    for (const facts::Core& core : request.topology.cores) {
      const Cpus left = as_set(core.cpus) & allowed;
      if (left.any()) units.push_back({left, core.node});
    }
    for (std::size_t i = 0; i < placement.workers.size(); ++i) {
      Worker& worker = workers.emplace_back();
      worker.cpus = as_set(placement.workers[i].cpus);
      bound = bound || worker.cpus.any();
      for (const std::vector<int>& near : request.near_gpus[i]) {
        if ((as_set(near) & allowed) != allowed) worker.near |= as_set(near);
      }
    }
  }

  const PlacementRequest& request;
  Placement placement;
  Cpus allowed;
  std::vector<Unit> units;
  std::vector<Worker> workers;
  bool bound = false;
};

Cpus held_by_all(const Scene& scene) {
  Cpus held;
  for (const Worker& worker : scene.workers) held |= worker.cpus;
  return held;
}

// Any way to bind: what is allowed, whole cores, nobody empty, and the rest is spare.
std::string check_bound(const Scene& scene) {
  if (scene.workers.size() != scene.request.near_gpus.size()) return "a worker is missing";
  for (const Worker& worker : scene.workers) {
    if (worker.cpus.none()) return "a worker has nothing";
    if ((worker.cpus & ~scene.allowed).any()) return "a CPU is not allowed";
    for (const Unit& unit : scene.units) {
      const Cpus own = unit.cpus & worker.cpus;
      if (own.any() && own != unit.cpus) return "siblings are apart";
    }
  }
  const Cpus rest = scene.allowed & ~held_by_all(scene);
  return as_set(scene.placement.spare) == rest ? "" : "what is spare is not the rest";
}

bool are_disjoint(const Scene& scene) {
  std::size_t sum = 0;
  for (const Worker& worker : scene.workers) sum += worker.cpus.count();
  return sum == held_by_all(scene).count();
}

// Ways to bind that share out cores.
std::string check_shared(const Scene& scene) {
  if (scene.units.size() < scene.workers.size()) {
    if (scene.bound || !scene.placement.spare.empty()) return "bound in spite of too few cores";
    const std::vector<allocation::Notice>& notices = scene.placement.notices;
    const bool told = std::any_of(notices.begin(), notices.end(), [](const allocation::Notice& notice) {
      return notice.what.find("none of them is bound") != std::string::npos;
    });
    return told ? "" : "no word of too few cores";
  }
  const std::string wrong = check_bound(scene);
  return wrong.empty() && !are_disjoint(scene) ? "two workers share a CPU" : wrong;
}

std::string check_memory_of(const Scene& scene, const facts::Binding& worker) {
  if ((worker.policy == facts::MemoryPolicy::untouched) != worker.memory_nodes.empty())
    return "a policy of nothing";
  const std::vector<facts::MemoryNode>& nodes = scene.request.topology.nodes;
  const std::vector<int>& may = scene.request.allowed_memory_nodes;
  for (const int number : worker.memory_nodes) {
    const auto node = std::find_if(nodes.begin(), nodes.end(),
                                   [&](const facts::MemoryNode& each) { return each.number == number; });
    if (node == nodes.end() || node->cpus.empty()) return "memory of a node without CPUs";
    const bool known =
        std::any_of(nodes.begin(), nodes.end(), [](const auto& each) { return each.bytes > 0; });
    if (known && node->bytes == 0) return "memory of a node without memory";
    if (!may.empty() && !std::binary_search(may.begin(), may.end(), number)) return "memory is not allowed";
  }
  if (worker.memory_nodes.empty()) return "";
  if (scene.request.bind.mode == options::BindMode::automatic)
    return worker.memory_nodes.size() == 1 ? "" : "preferred memory of several nodes";
  std::vector<int> own;
  for (const Unit& unit : scene.units) {
    if ((unit.cpus & as_set(worker.cpus)).any()) own.push_back(unit.node);
  }
  const bool one = !own.empty() &&
                   std::count(own.begin(), own.end(), own.front()) == static_cast<std::ptrdiff_t>(own.size());
  return one && worker.memory_nodes.size() == 1 ? "" : "preferred memory of several nodes";
}

std::string check_memory(const Scene& scene) {
  for (const facts::Binding& worker : scene.placement.workers) {
    const std::string wrong = check_memory_of(scene, worker);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// The share of a worker's cores that is near a GPU of its own.
double nearness(const Scene& scene, const Worker& worker) {
  int cores = 0;
  int near = 0;
  for (const Unit& unit : scene.units) {
    if ((unit.cpus & worker.cpus).none()) continue;
    ++cores;
    near += (unit.cpus & worker.near).any() ? 1 : 0;
  }
  return static_cast<double>(near) / std::max(cores, 1);
}

double locality(const Scene& scene) {
  double sum = 0;
  for (const Worker& worker : scene.workers) sum += nearness(scene, worker);
  return sum;
}

double best_locality(const Scene& scene) {
  return static_cast<double>(std::count_if(scene.workers.begin(), scene.workers.end(),
                                           [](const Worker& worker) { return worker.near.any(); }));
}

std::string check_locality(const Scene& scene) {
  const double found = locality(scene);
  if (!scene.bound || found >= best_locality(scene)) return "";
  PlacementRequest even = scene.request;
  for (auto& gpus : even.near_gpus) gpus.clear();
  Scene evenly(even);
  for (std::size_t i = 0; i < scene.workers.size(); ++i) evenly.workers[i].near = scene.workers[i].near;
  return found >= locality(evenly) - 1e-9 ? "" : "farther than an even split";
}

// Runs `check` on every node; what it calls wrong is told with the node's number.
template <class Check>
void for_all_nodes(int count, const Check& check) {
  USUAL_SEED(seed, 20261121);
  RandomNodes nodes(seed);
  std::string wrong;
  int failures = 0;
  for (int i = 0; i < rounds(count) && failures < 3; ++i) {
    const PlacementRequest& request = nodes.next();
    const std::string found = check(request);
    if (found.empty()) continue;
    ++failures;
    wrong += fmt::format("node {} with {} workers on {}: {}\n", i, request.near_gpus.size(),
                         facts::render_cpu_list(request.allowed_cpus), found);
  }
  CHECK(wrong == "");
}

}  // namespace

TEST_CASE("what placement promises holds on any node") {
  for_all_nodes(k_nodes, [](PlacementRequest request) {
    request.bind.mode = options::BindMode::near;
    const Scene scene(request);
    const bool single = scene.workers.size() == 1 && !scene.bound;
    std::string wrong = single ? "" : check_shared(scene);
    if (wrong.empty()) wrong = check_memory(scene);
    return wrong.empty() ? check_locality(scene) : wrong;
  });
}

TEST_CASE("automatic binding adds the package's idle cores to what is near, and never takes any away") {
  for_all_nodes(k_nodes, [](PlacementRequest request) -> std::string {
    const Scene wide(request);
    if (!wide.bound) return "";
    std::string wrong = check_shared(wide);
    if (wrong.empty()) wrong = check_memory(wide);
    request.bind.mode = options::BindMode::near;
    const Scene near(request);
    for (std::size_t i = 0; i < wide.workers.size() && wrong.empty(); ++i) {
      if ((near.workers[i].cpus & ~wide.workers[i].cpus).any()) wrong = "a near core was taken away";
      const auto& narrow_memory = near.placement.workers[i].memory_nodes;
      if (near.bound && wide.placement.workers[i].memory_nodes != narrow_memory)
        wrong = "memory from elsewhere";
    }
    std::vector<bool> used(static_cast<std::size_t>(request.topology.packages));
    for (const facts::Core& core : request.topology.cores) {
      if ((as_set(core.cpus) & held_by_all(near)).any()) used[static_cast<std::size_t>(core.package)] = true;
    }
    for (const facts::Core& core : request.topology.cores) {
      const bool idle = (as_set(core.cpus) & as_set(wide.placement.spare)).any();
      if (idle && used[static_cast<std::size_t>(core.package)] && near.bound)
        wrong = "an idle core beside a worker";
    }
    return wrong;
  });
}

TEST_CASE("a single worker is bound unless it would have all") {
  for_all_nodes(k_nodes / 4, [](PlacementRequest request) -> std::string {
    request.near_gpus.resize(1);
    request.bind.mode = options::BindMode::near;
    const Scene scene(request);
    if (!scene.bound) return scene.placement.spare.empty() ? "" : "spare CPUs of an unbound worker";
    return scene.workers.front().cpus == scene.allowed ? "bound to all" : check_shared(scene);
  });
}

TEST_CASE("without GPUs nobody has much less than a fair share, and nothing is left over") {
  for_all_nodes(k_nodes / 2, [](PlacementRequest request) -> std::string {
    for (auto& gpus : request.near_gpus) gpus.clear();
    const Scene scene(request);
    if (!scene.bound) return "";
    const std::size_t fair = scene.units.size() * 3 / (scene.workers.size() * 4);
    for (const Worker& worker : scene.workers) {
      const auto own = std::count_if(scene.units.begin(), scene.units.end(),
                                     [&](const Unit& unit) { return (unit.cpus & worker.cpus).any(); });
      if (static_cast<std::size_t>(own) < fair) return fmt::format("a worker has {} cores", own);
    }
    return scene.placement.spare.empty() ? "" : "cores are left over";
  });
}

TEST_CASE("the same request has the same answer") {
  for_all_nodes(k_nodes / 4, [](const PlacementRequest& request) {
    const Placement first = place_workers(request);
    const Placement second = place_workers(PlacementRequest(request));
    const bool same = first.workers == second.workers && first.spare == second.spare &&
                      first.origin == second.origin && first.notices == second.notices;
    return std::string(same ? "" : "another answer");
  });
}

// With one GPU a worker, each near one node.
TEST_CASE("GPUs in reverse order hold the same cores, the other way round") {
  int compared = 0;
  for_all_nodes(k_nodes / 2, [&](PlacementRequest request) -> std::string {
    for (auto& gpus : request.near_gpus) gpus.resize(1);
    request.bind.mode = options::BindMode::near;
    const Scene forward(request);
    if (!forward.bound || locality(forward) < static_cast<double>(forward.workers.size())) return "";
    PlacementRequest reversed = request;
    std::reverse(reversed.near_gpus.begin(), reversed.near_gpus.end());
    const Scene backward(reversed);
    ++compared;
    if (held_by_all(forward) != held_by_all(backward)) return "other cores";
    return locality(backward) == locality(forward) ? "" : "farther from the GPUs";
  });
  CHECK(compared > 100);
}

TEST_CASE("ways to bind with torchrun's names hold whole cores of what is allowed") {
  int turn = 0;
  for_all_nodes(k_nodes / 2, [&](PlacementRequest request) {
    constexpr options::BindMode k_modes[] = {options::BindMode::node, options::BindMode::socket,
                                             options::BindMode::exclusive, options::BindMode::core_complex};
    request.bind.mode = k_modes[turn++ % 4];
    const Scene scene(request);
    const std::string wrong =
        request.bind.mode == options::BindMode::exclusive ? check_shared(scene) : check_bound(scene);
    return wrong.empty() ? check_memory(scene) : wrong;
  });
}
