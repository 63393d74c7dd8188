#include "placement/placement.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "catch.hpp"
#include "error_text.hpp"
#include "facts/proc_text.hpp"
#include "node_cases.hpp"

using namespace ddprun;
using namespace ddprun::placement;
using namespace ddprun::test;

namespace {

// Two packages of two NUMA nodes with two L3 groups of two cores each; core c has CPUs c and c + 16. Nodes 0
// and 1 are in package 0; node n is numbered n.
PlacementRequest small_node(std::vector<std::vector<std::string>> near) {
  PlacementRequest request;
  facts::Topology& topology = request.topology;
  topology.source = "small";
  topology.packages = 2;
  for (int core = 0; core < 16; ++core)
    topology.cores.push_back({{core, core + 16}, core / 8, core / 4, core / 2});
  for (int node = 0; node < 4; ++node) {
    topology.nodes.push_back(
        {node, cpus(fmt::format("{}-{},{}-{}", 4 * node, 4 * node + 3, 4 * node + 16, 4 * node + 19)),
         1 << 30});
  }
  topology.distances = {{10, 12, 32, 32}, {12, 10, 32, 32}, {32, 32, 10, 12}, {32, 32, 12, 10}};
  request.allowed_cpus = cpus("0-31");
  for (const auto& gpus : near) {
    auto& own = request.near_gpus.emplace_back();
    for (const std::string& list : gpus) own.push_back(cpus(list));
  }
  return request;
}

const std::string k_node[] = {"0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"};

PlacementRequest with_bind(PlacementRequest request, const std::string& bind) {
  request.bind = options::parse_bind(bind, "--bind");
  return request;
}

std::string cpus_of(const Placement& placement) {
  std::vector<std::string> lists;
  for (const facts::Binding& worker : placement.workers)
    lists.push_back(worker.cpus.empty() ? "-" : facts::render_cpu_list(worker.cpus));
  return join(lists, " | ");
}

std::string cpus_of(const PlacementRequest& request) { return cpus_of(place_workers(request)); }

std::string memory_of(const PlacementRequest& request) {
  std::vector<std::string> lists;
  for (const facts::Binding& worker : place_workers(request).workers) {
    const char* policy = worker.policy == facts::MemoryPolicy::untouched   ? "-"
                         : worker.policy == facts::MemoryPolicy::preferred ? "preferred "
                                                                           : "bind ";
    lists.push_back(policy + facts::render_cpu_list(worker.memory_nodes));
  }
  return join(lists, " | ");
}

std::string notices_of(const PlacementRequest& request) {
  std::vector<std::string> texts;
  for (const allocation::Notice& notice : place_workers(request).notices)
    texts.push_back(notice.what + " | " + notice.hint);
  return join(texts, "\n");
}

std::string refusal_of(const PlacementRequest& request) {
  return usage_error_of([&] { place_workers(request); });
}

}  // namespace

TEST_CASE("a worker with several GPUs has a share near each") {
  CHECK(cpus_of(small_node({{k_node[3], k_node[2]}, {k_node[1], k_node[0]}})) == "8-15,24-31 | 0-7,16-23");
  CHECK(cpus_of(with_bind(small_node({{k_node[0], k_node[0]}, {k_node[0]}}), "near")) == "0-2,16-18 | 3,19");
}

TEST_CASE("GPUs whose cores are not allowed cost nobody near too much") {
  PlacementRequest request = small_node({{k_node[3], k_node[2]}, {k_node[1], k_node[0]}});
  request.allowed_cpus = cpus("8-15,24-31");
  CHECK(cpus_of(request) == "8-9,12-13,24-25,28-29 | 10-11,14-15,26-27,30-31");
  CHECK(notices_of(request) ==
        "no allowed core is left near the GPU of worker 1: farther ones are used | let the scheduler grant "
        "the cores near the GPUs too, in Slurm with --exclusive or a larger -c");
}

TEST_CASE("a GPU near several nodes shares them, unless another one is near one of them") {
  const std::string package = "0-7,16-23";
  CHECK(cpus_of(small_node({{package}, {package}})) == "0-3,16-19 | 4-7,20-23");
  CHECK(cpus_of(small_node({{package}, {k_node[0]}})) == "4-7,20-23 | 0-3,16-19");
}

TEST_CASE("a GPU near everything, or of unknown place, is near nothing") {
  const std::string notice =
      "the cores near the GPUs of workers 0-1 are not known: cores are divided evenly | choose them with "
      "--bind core:LIST:LIST..., a list for each worker";
  for (const char* list : {"", "0-31"}) {
    const PlacementRequest request = small_node({{list}, {list}});
    CHECK(cpus_of(request) == "0-7,16-23 | 8-15,24-31");
    CHECK(notices_of(request) == notice);
    CHECK(place_workers(request).origin == "even split of 16 cores");
  }
  PlacementRequest one_node = small_node({{""}, {""}});
  one_node.allowed_cpus = cpus("0-3");
  CHECK(notices_of(one_node) == "");
}

TEST_CASE("a list of near CPUs that is cut or a little too long still tells the node") {
  CHECK(cpus_of(with_bind(small_node({{"8-11"}, {"4-8"}}), "near")) == "8-11,24-27 | 4-7,20-23");
  CHECK(cpus_of(with_bind(small_node({{"13"}, {"0"}}), "near")) == "12-15,28-31 | 0-3,16-19");
  PlacementRequest request = small_node({{"9"}, {"12-15"}});
  request.allowed_cpus = cpus("9,12-15");
  CHECK(cpus_of(request) == "9 | 12-15");
}

TEST_CASE("cores of NUMA nodes without a GPU go to the workers of their package, memory stays near") {
  const PlacementRequest request = small_node({{k_node[1]}, {k_node[2]}});
  CHECK(cpus_of(request) == "0-7,16-23 | 8-15,24-31");
  CHECK(memory_of(request) == "preferred 1 | preferred 2");
  CHECK(place_workers(request).origin == "cores near each GPU, then those of NUMA nodes 0,3");
  CHECK(cpus_of(with_bind(request, "near")) == "4-7,20-23 | 8-11,24-27");
  CHECK(place_workers(with_bind(request, "near")).origin == "cores near each GPU (--bind near)");
  CHECK(cpus_of(with_bind(request, "exclusive")) == "4-7,20-23 | 8-11,24-27");
}

TEST_CASE("idle cores go first to whom they bring up to the others") {
  CHECK(cpus_of(small_node({{k_node[0]}, {k_node[0]}})) == "0-1,4-5,16-17,20-21 | 2-3,6-7,18-19,22-23");
  PlacementRequest request = small_node({{k_node[0]}, {k_node[1]}});
  request.allowed_cpus = cpus("0-4,8-15,16-20,24-31");
  CHECK(cpus_of(request) == "0-3,16-19 | 4,20");
  // A third node in the package.
  for (facts::Core& core : request.topology.cores) core.package = core.node == 3 ? 1 : 0;
  CHECK(cpus_of(request) == "0-3,11,16-19,27 | 4,8-10,20,24-26");
}

TEST_CASE("packages without any GPU stay spare") {
  const Placement placement = place_workers(small_node({{k_node[1]}}));
  CHECK(cpus_of(placement) == "0-7,16-23");
  CHECK(facts::render_cpu_list(placement.spare) == "8-15,24-31");
}

TEST_CASE("one worker that gets a whole package that is all there is stays bound for its memory") {
  PlacementRequest request = small_node({{k_node[1]}});
  request.allowed_cpus = cpus("0-7,16-23");
  CHECK(cpus_of(request) == "0-7,16-23");
  CHECK(memory_of(request) == "preferred 1");
}

TEST_CASE("memory of no other nodes than its own is that of all of them") {
  PlacementRequest request = small_node({{k_node[1]}, {k_node[2]}});
  request.memory = options::MemoryBind::bind;
  CHECK(memory_of(request) == "bind 0-1 | bind 2-3");
}

TEST_CASE("each kind of core of a hybrid processor is dealt out evenly") {
  const NodeCase hybrid = read_node_case("hybrid");
  CHECK(cpus_of(request_for(hybrid, 2)) == "0-5,12-15 | 6-11,16-19");
  CHECK(cpus_of(request_for(hybrid, 4)) == "0-3,12-13 | 4-7,14-15 | 8-9,16-17 | 10-11,18-19");
  // Who has no fast core has two slow ones.
  CHECK(cpus_of(request_for(hybrid, 8)) == "0-1,12 | 2-3,13 | 4-5,14 | 6-7,15 | 8-9,16 | 10-11,17 | 18 | 19");
}

TEST_CASE("six workers on four NUMA nodes with an L3 each have a fair share") {
  for (const facts::Binding& worker : place_workers(request_for(read_node_case("four-l3"), 6)).workers)
    CHECK(worker.cpus.size() >= 28);
}

TEST_CASE("who finds no room goes to the idle node that is nearest") {
  PlacementRequest request = small_node({{k_node[3]}, {k_node[2]}, {}});
  request.allowed_cpus = cpus("0-11,16-27");
  CHECK(cpus_of(request) == "0-3,16-19 | 8-11,24-27 | 4-7,20-23");
  request.topology.distances[3] = {40, 30, 32, 10};
  CHECK(cpus_of(request) == "4-7,20-23 | 8-11,24-27 | 0-3,16-19");
}

TEST_CASE("fewer cores than workers bind nobody") {
  PlacementRequest request = small_node({{}, {}, {}});
  request.allowed_cpus = cpus("0-1,16");
  CHECK(cpus_of(request) == "- | - | -");
  CHECK(place_workers(request).spare.empty());
  CHECK(place_workers(request).origin == "not bound");
  CHECK(
      notices_of(request) ==
      "3 workers have 2 cores: none of them is bound | start fewer workers with --nproc-per-node, or ask the "
      "scheduler for more cores");
  CHECK(cpus_of(with_bind(request, "exclusive")) == "- | - | -");
  CHECK(cpus_of(with_bind(request, "node")) == "0-1,16 | 0-1,16 | 0-1,16");
}

TEST_CASE("a list with fewer cores than workers binds all of them to it and says so") {
  const PlacementRequest request = with_bind(small_node({{}, {}, {}}), "cpu:0-1");
  CHECK(cpus_of(request) == "0-1 | 0-1 | 0-1");
  CHECK(notices_of(request) ==
        "3 workers share the 2 CPUs of --bind | name more cores, or a list for each worker as in "
        "core:0-7:8-15");
}

TEST_CASE("a topology of another node binds nobody") {
  PlacementRequest request = small_node({{}, {}});
  request.allowed_cpus = cpus("64-95");
  for (const char* bind : {"auto", "node", "exclusive"}) {
    CHECK(cpus_of(with_bind(request, bind)) == "- | -");
    CHECK(notices_of(with_bind(request, bind)) ==
          "no worker is bound: none of the allowed CPUs is in the topology (small) | leave --topology out, "
          "or add --bind none");
  }
}

TEST_CASE("the way to bind is named in the origin") {
  const PlacementRequest request = small_node({{k_node[1]}, {k_node[2]}});
  const auto origin_of = [&](const char* bind) { return place_workers(with_bind(request, bind)).origin; };
  CHECK(origin_of("auto") == "cores near each GPU, then those of NUMA nodes 0,3");
  CHECK(origin_of("none") == "not bound (--bind none)");
  CHECK(origin_of("node") == "NUMA node of each GPU (--bind node)");
  CHECK(origin_of("socket") == "package of each GPU (--bind socket)");
  CHECK(origin_of("exclusive") == "cores near each GPU (--bind exclusive)");
  CHECK(origin_of("core-complex") == "an L3 group near each GPU (--bind core-complex)");
  CHECK(origin_of("cpu:0:1") == "a list for each worker (--bind)");
  CHECK(origin_of("cpu:4-11") == "cores near each GPU (--bind)");
}

TEST_CASE("none leaves everything as it is") {
  PlacementRequest request = with_bind(small_node({{k_node[1]}, {}}), "none");
  request.memory = options::MemoryBind::bind;
  CHECK(cpus_of(request) == "- | -");
  CHECK(memory_of(request) == "- | -");
  CHECK(place_workers(small_node({})).workers.empty());
}

TEST_CASE("workers of one node share it whole with node, and its package with socket") {
  const PlacementRequest request = small_node({{k_node[1]}, {k_node[1]}, {k_node[2]}});
  CHECK(cpus_of(with_bind(request, "node")) == "4-7,20-23 | 4-7,20-23 | 8-11,24-27");
  CHECK(cpus_of(with_bind(request, "socket")) == "0-7,16-23 | 0-7,16-23 | 8-15,24-31");
  CHECK(cpus_of(with_bind(small_node({{}, {}, {}, {}}), "socket")) ==
        "0-7,16-23 | 0-7,16-23 | 8-15,24-31 | 8-15,24-31");
}

TEST_CASE("with node, a GPU whose node is not allowed has the nearest one") {
  PlacementRequest request = with_bind(small_node({{k_node[3]}, {k_node[0]}}), "node");
  request.allowed_cpus = cpus("0-11");
  CHECK(cpus_of(request) == "8-11 | 0-3");
  CHECK(notices_of(request).starts_with("no allowed core is left near the GPU of worker 0: "));
}

TEST_CASE("exclusive slices a node without regard to caches, the first with the remainder") {
  const PlacementRequest request = small_node({{k_node[0]}, {k_node[0]}, {k_node[0]}});
  CHECK(cpus_of(with_bind(request, "exclusive")) == "0-1,16-17 | 2,18 | 3,19");
  PlacementRequest uneven = small_node({{k_node[0]}, {k_node[0]}});
  uneven.allowed_cpus = cpus("0,2-3");
  CHECK(cpus_of(uneven) == "0 | 2-3");
  CHECK(cpus_of(with_bind(uneven, "exclusive")) == "0,2 | 3");
}

TEST_CASE("core complexes are dealt by size, again from the first when there are no more") {
  PlacementRequest request =
      with_bind(small_node({{k_node[0]}, {k_node[0]}, {k_node[0]}, {k_node[2]}}), "core-complex");
  CHECK(cpus_of(request) == "0-1,16-17 | 2-3,18-19 | 0-1,16-17 | 8-9,24-25");
  request.allowed_cpus = cpus("0,2-3,8");
  CHECK(cpus_of(request) == "2-3 | 0 | 2-3 | 8");
}

TEST_CASE("a list for each worker is taken as it is written") {
  CHECK(cpus_of(with_bind(small_node({{}, {}}), "cpu:0-1:1,16")) == "0-1 | 1,16");
  CHECK(cpus_of(with_bind(small_node({{}, {}}), "core:0-1:17")) == "0-1,16-17 | 1,17");
  CHECK(cpus_of(with_bind(small_node({{k_node[3]}}), "cpu:0-31")) == "0-31");
  const Placement placement = place_workers(with_bind(small_node({{}, {}}), "cpu:0-14:16-30"));
  CHECK(placement.spare == cpus("15,31"));
}

TEST_CASE("one list for several workers is shared out") {
  CHECK(cpus_of(with_bind(small_node({{k_node[1]}, {k_node[0]}}), "core:0-7")) == "4-7,20-23 | 0-3,16-19");
  CHECK(cpus_of(with_bind(small_node({{}, {}}), "cpu:0-3")) == "0-1 | 2-3");
  CHECK(place_workers(with_bind(small_node({{}, {}}), "cpu:0-3")).spare == cpus("4-31"));
  CHECK(cpus_of(with_bind(small_node({{}, {}}), "cpu:5")) == "5 | 5");
}

TEST_CASE("lists that do not fit the workers are refused with both counts") {
  CHECK(refusal_of(with_bind(small_node({{}, {}}), "cpu:0:1:2")) ==
        "--bind has 3 lists for 2 workers | give a list for each worker, or a single one that all share");
  CHECK(refusal_of(with_bind(small_node({{}}), "cpu:0:1")) ==
        "--bind has 2 lists for 1 worker | give a list for each worker, or a single one that all share");
}

TEST_CASE("listed CPUs that are not allowed are left out and named") {
  PlacementRequest request = with_bind(small_node({{}, {}}), "cpu:0-3:4-9");
  request.allowed_cpus = cpus("2-7,18-23");
  CHECK(cpus_of(request) == "2-3 | 4-7");
  CHECK(notices_of(request) ==
        "--bind names CPUs that may not be used here and are left out: 0-1,8-9 | the CPUs that may be used "
        "here: "
        "2-7,18-23");
  // Where whole cores are meant, one allowed CPU is enough.
  request = with_bind(request, "core:1-2:3");
  request.allowed_cpus = cpus("2-7,17-23");
  CHECK(cpus_of(request) == "2,17-18 | 3,19");
  CHECK(notices_of(request) == "");
}

TEST_CASE("lists that leave a worker nothing are refused") {
  PlacementRequest request = small_node({{}, {}});
  request.allowed_cpus = cpus("0-3");
  CHECK(refusal_of(with_bind(request, "cpu:0:8-9")) ==
        "--bind leaves worker 1 no CPU: none of 8-9 may be used here | the CPUs that may be used here: 0-3");
  CHECK(refusal_of(with_bind(request, "mask:ff00")) ==
        "--bind leaves the workers no CPU: none of 8-15 may be used here | the CPUs that may be used here: "
        "0-3");
}

TEST_CASE("memory follows the cores") {
  PlacementRequest request = small_node({{k_node[3]}, {"0-7,16-23"}});
  CHECK(memory_of(request) == "preferred 3 | -");
  request.memory = options::MemoryBind::preferred;
  CHECK(memory_of(request) == "preferred 3 | preferred 0-1");
  request.memory = options::MemoryBind::bind;
  CHECK(memory_of(request) == "bind 2-3 | bind 0-1");
  request.memory = options::MemoryBind::none;
  CHECK(memory_of(request) == "- | -");
  CHECK(memory_of(with_bind(small_node({{}, {}}), "cpu:0,16:3-4")) == "preferred 0 | -");
}

TEST_CASE("an unbound worker's memory is left alone unless it was asked for") {
  PlacementRequest request = small_node({{}});
  request.allowed_cpus = cpus("4-7");
  CHECK(memory_of(request) == "-");
  request.memory = options::MemoryBind::bind;
  CHECK(cpus_of(request) == "-");
  CHECK(memory_of(request) == "bind 1");
}

TEST_CASE("a single NUMA node leaves no choice of memory") {
  PlacementRequest request;
  request.topology = facts::make_flat_topology(cpus("0-7"));
  request.allowed_cpus = cpus("0-7");
  request.near_gpus.resize(2);
  CHECK(cpus_of(request) == "0-3 | 4-7");
  CHECK(memory_of(request) == "- | -");
  request.memory = options::MemoryBind::preferred;
  CHECK(memory_of(request) == "preferred 0 | preferred 0");
}

TEST_CASE("a node without memory takes the nearest node's, and one without CPUs gives none") {
  PlacementRequest request = small_node({{k_node[3]}, {k_node[0]}});
  request.topology.nodes[3].bytes = 0;
  request.topology.nodes.push_back({5, {}, 1 << 30});
  request.topology.distances = {};
  CHECK(memory_of(request) == "preferred 0 | preferred 0");
  request.topology.distances = {{10, 12, 32, 32, 20},
                                {12, 10, 32, 32, 20},
                                {32, 32, 10, 12, 20},
                                {32, 32, 12, 10, 11},
                                {20, 20, 20, 20, 10}};
  CHECK(memory_of(request) == "preferred 2 | preferred 0");
}

TEST_CASE("memory that is not allowed is not asked for") {
  PlacementRequest request = small_node({{k_node[3]}, {k_node[0]}, {k_node[1]}});
  request.allowed_memory_nodes = {1, 2};
  CHECK(memory_of(request) == "- | - | preferred 1");
  CHECK(notices_of(request) ==
        "no memory near the cores of workers 0-1 may be used here: the kernel chooses the NUMA nodes | the "
        "NUMA nodes that may be used: 1-2");
  request.memory = options::MemoryBind::none;
  CHECK(notices_of(request) == "");
}
