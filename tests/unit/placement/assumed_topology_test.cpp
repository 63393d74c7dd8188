#include "placement/assumed_topology.hpp"

#include "catch.hpp"
#include "error_text.hpp"
#include "node_builder.hpp"
#include "node_cases.hpp"

using namespace ddprun;
using namespace ddprun::placement;
using namespace ddprun::test;

namespace {

facts::Topology two_sockets() {
  facts::Topology topology = build_topology({2, 2, 1, 4, 2});
  topology.source = "node.xml";
  return topology;
}

}  // namespace

TEST_CASE("a described node takes the place of this one") {
  facts::HostFacts host;
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
  CHECK(host.warnings.empty());
}

TEST_CASE("GPUs that the description does not name are spread over its NUMA nodes, and a doubt says so") {
  facts::HostFacts host;
  facts::Topology topology = two_sockets();
  add_memory(topology, 9, 1 << 30);
  imagine_node(host, topology, sourced(2, "--gpus"));
  REQUIRE(host.gpus.size() == 2);
  CHECK(host.gpus[0].local_cpus == topology.nodes[0].cpus);
  CHECK(host.gpus[1].local_cpus == topology.nodes[2].cpus);
  REQUIRE(host.warnings.size() == 1);
  CHECK(host.warnings[0] ==
        "node.xml names no GPU, so 2 GPUs are spread evenly over its NUMA nodes; `lstopo FILE.xml` on the "
        "node itself shows more");
}

TEST_CASE("partitions of a GPU and tiles of a card each count, with their vendor") {
  const std::vector<std::pair<std::string, std::size_t>> machines{
      {"mi300a-cpx", 24}, {"mi300a-tpx", 12}, {"max-1550", 8}};
  for (const auto& [machine, devices] : machines) {
    CAPTURE(machine);
    facts::HostFacts host;
    imagine_node(host, read_node_case(machine).topology, std::nullopt);
    REQUIRE(host.gpus.size() == devices);
    CHECK(host.gpus[0].vendor == (machine == "max-1550" ? "intel" : "amd"));
    CHECK(host.gpus[0].pci_address == host.gpus[1].pci_address);
    CHECK(host.warnings.empty());
  }
}

TEST_CASE("a multiple of the GPUs that are named is that many partitions of each, and a doubt says so") {
  facts::HostFacts host;
  imagine_node(host, read_node_case("mi300a").topology, sourced(12, "--gpus"));
  REQUIRE(host.gpus.size() == 12);
  CHECK(host.gpus[2].pci_address == "0000:01:00.0");
  CHECK(host.gpus[3].pci_address == "0001:01:00.0");
  CHECK(host.warnings ==
        std::vector<std::string>{"mi300a/node.json names 4 GPUs: each is assumed to be 3 of 12 (--gpus)"});
}

TEST_CASE("what a description leaves to programs is what may be used") {
  facts::Topology topology = two_sockets();
  topology.allowed = {0, 1, 2};
  facts::HostFacts host;
  imagine_node(host, topology, std::nullopt);
  CHECK(host.allowed_cpus == std::vector<int>{0, 1, 2});
  CHECK(host.allowed_cores == 3);
}

TEST_CASE("a node is spoken of by the name its description tells, else by the description's") {
  facts::HostFacts host;
  CHECK(node_name(host, "n1") == "n1");
  imagine_node(host, two_sockets(), std::nullopt);
  CHECK(node_name(host, "n1") == "node.xml");
  facts::Topology topology = two_sockets();
  topology.host = "jwb0001";
  imagine_node(host, topology, std::nullopt);
  CHECK(node_name(host, "n1") == "jwb0001");
}

TEST_CASE("of the GPUs that are named the first ones are taken") {
  facts::Topology topology = two_sockets();
  add_device(topology, facts::DeviceKind::gpu, "0000:01:00.0", 3);
  add_device(topology, facts::DeviceKind::network, "0000:02:00.0", 3);
  add_device(topology, facts::DeviceKind::gpu, "0000:03:00.0", 1);
  facts::HostFacts host;
  imagine_node(host, topology, sourced(1, "--gpus"));
  REQUIRE(host.gpus.size() == 1);
  CHECK(host.gpus[0].pci_address == "0000:01:00.0");
  CHECK(host.gpus[0].local_cpus == topology.nodes[3].cpus);
  imagine_node(host, topology, sourced(0, "--gpus"));
  CHECK(host.gpus.empty());
  CHECK(error_of([&] { imagine_node(host, topology, sourced(3, "--gpus")); }) ==
        "--gpus asks for 3, but node.xml has 2 | leave it out to use them all | 2");
}
