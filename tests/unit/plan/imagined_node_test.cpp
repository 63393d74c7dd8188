#include "ddprun/plan/imagined_node.hpp"

#include "catch.hpp"
#include "error_text.hpp"
#include "node_builder.hpp"

using namespace ddprun;
using namespace ddprun::test;

namespace {

Topology two_sockets() {
  Topology topology = build_topology({2, 2, 1, 4, 2});
  topology.source = "node.xml";
  return topology;
}

}  // namespace

TEST_CASE("a described node takes the place of this one") {
  HostFacts host;
  host.allowed_cpus = {0};
  host.cpu_quota = 1.5;
  host.gpus = {{"amd", "0000:01:00.0"}};
  imagine_node(host, two_sockets(), std::nullopt);
  CHECK(host.allowed_cpus.size() == 32);
  CHECK(host.allowed_cores == 16);
  CHECK(host.online_cpus == 32);
  CHECK(!host.cpu_quota);
  CHECK(host.allowed_memory_nodes == std::vector<int>{0, 1, 2, 3});
  CHECK(host.gpus.empty());
  CHECK(host.doubts.empty());
}

TEST_CASE("GPUs that the description does not name are spread over its NUMA nodes, and a doubt says so") {
  HostFacts host;
  Topology topology = two_sockets();
  add_memory(topology, 9, 1 << 30);
  imagine_node(host, topology, sourced(2, "--gpus"));
  REQUIRE(host.gpus.size() == 2);
  CHECK(host.gpus[0].local_cpus == topology.nodes[0].cpus);
  CHECK(host.gpus[1].local_cpus == topology.nodes[2].cpus);
  REQUIRE(host.doubts.size() == 1);
  CHECK(
      host.doubts[0] ==
      "node.xml names no GPU, so 2 GPUs are spread evenly over its NUMA nodes; `lstopo FILE.xml` on the node "
      "itself tells more");
}

TEST_CASE("of the GPUs that are named the first ones are taken") {
  Topology topology = two_sockets();
  add_device(topology, DeviceKind::gpu, "0000:01:00.0", 3);
  add_device(topology, DeviceKind::network, "0000:02:00.0", 3);
  add_device(topology, DeviceKind::gpu, "0000:03:00.0", 1);
  HostFacts host;
  imagine_node(host, topology, sourced(1, "--gpus"));
  REQUIRE(host.gpus.size() == 1);
  CHECK(host.gpus[0].pci_address == "0000:01:00.0");
  CHECK(host.gpus[0].local_cpus == topology.nodes[3].cpus);
  imagine_node(host, topology, sourced(0, "--gpus"));
  CHECK(host.gpus.empty());
  CHECK(error_of([&] { imagine_node(host, topology, sourced(3, "--gpus")); }) ==
        "--gpus asks for 3, but node.xml has 2 | leave it out to take them all | 2");
}
