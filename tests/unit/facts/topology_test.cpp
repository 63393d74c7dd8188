#include "facts/topology.hpp"

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::facts;

namespace {

// Two packages of two cores with SMT, a GPU's memory without CPUs, one device of each kind.
Topology small_node() {
  Topology topology;
  topology.source = "node.xml";
  topology.packages = 2;
  topology.cores = {{{0, 4}, 0, 0, 0}, {{1, 5}, 0, 0, 0}, {{2, 6}, 1, 1, 1}, {{3, 7}, 1, 1, 2}};
  topology.nodes = {{0, {0, 1, 4, 5}, 1LL << 38}, {1, {2, 3, 6, 7}, 1LL << 38}, {8, {}, 1LL << 36}};
  topology.distances = {{10, 21, 80}, {21, 10, 80}, {80, 80, 10}};
  topology.devices = {
      {DeviceKind::gpu, "0000:c1:00.0", {"card1"}, {"0000:c0:01.1", "0000:c1:00.0"}, {2, 3, 6, 7}},
      {DeviceKind::network, "10000:e1:00.0", {"mlx5_0", "ib0"}, {}, {}}};
  return topology;
}

std::string refusal(const std::string& json) {
  const std::string text = error_of([&] { parse_topology(json, "node.json"); });
  const std::string start = "cannot use the topology node.json: ";
  const std::string end = std::string(" | ") + k_topology_forms + " | 2";
  if (!text.starts_with(start) || !text.ends_with(end)) return text;
  return text.substr(start.size(), text.size() - start.size() - end.size());
}

}  // namespace

TEST_CASE("a flat topology makes a core of every CPU") {
  const Topology flat = make_flat_topology({3, 5});
  CHECK(flat.source == "affinity mask alone");
  CHECK(flat.cores == std::vector<Core>{{{3}, 0, 0, 0}, {{5}, 0, 0, 0}});
  CHECK(flat.nodes == std::vector<MemoryNode>{{0, {3, 5}, 0}});
  CHECK(flat.packages == 1);
}

TEST_CASE("all CPUs of a topology are ascending, whatever the order of the cores") {
  CHECK(all_cpus(small_node()) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("PCI addresses are written as sysfs writes them") {
  CHECK(normal_pci_address("00000000:C1:00.0") == "0000:c1:00.0");
  CHECK(normal_pci_address("0000:c1:00.0") == "0000:c1:00.0");
  CHECK(normal_pci_address("c1:00.0") == "0000:c1:00.0");
  CHECK(normal_pci_address("00010000:E1:1F.7") == "10000:e1:1f.7");
  CHECK(normal_pci_address("0001:00:00.0") == "0001:00:00.0");
}

TEST_CASE("what is no PCI address stays as it is") {
  for (const char* text : {"", "GPU-0", "c1:00", "c1:00.0.0", "0000:c1:00.00", "x:c1:00.0", "0:0:0:0.0"})
    CHECK(normal_pci_address(text) == text);
}

TEST_CASE("a topology survives its JSON") {
  for (const Topology& topology : {small_node(), make_flat_topology({0, 2})}) {
    const std::string json = render_topology(topology);
    CHECK(parse_topology(json, "node.json") == topology);
    CHECK(render_topology(parse_topology(json, "node.json")) == json);
  }
}

TEST_CASE("a topology's JSON has a row for each place, not for each core") {
  const std::string json = render_topology(small_node());
  CHECK(json.find(R"("cores": "0,4 1,5")") != std::string::npos);
  CHECK(json.find(R"("names": "mlx5_0 ib0")") != std::string::npos);
}

TEST_CASE("cores and devices in any order are sorted") {
  const Topology topology = parse_topology(R"({"packages": 2, "nodes": [{"cpus": "0-3"}],
      "cores": [{"package": 1, "cores": "2 3"}, {"cores": "1 0"}],
      "devices": [{"address": "C1:00.0"}, {"kind": "network", "address": "0000:01:00.0"}]})",
                                           "node.json");
  CHECK(topology.cores == std::vector<Core>{{{0}, 0, 0, 0}, {{1}, 0, 0, 0}, {{2}, 1, 0, 0}, {{3}, 1, 0, 0}});
  CHECK(topology.devices[0].address == "0000:01:00.0");
  CHECK(topology.devices[1] == PciDevice{DeviceKind::gpu, "0000:c1:00.0", {}, {}, {}});
}

TEST_CASE("a malformed topology names the file, the key and what is wrong") {
  CHECK(refusal("[]") == "the whole file must be an object");
  CHECK(refusal("{\n{") == "line 2 is not JSON");
  CHECK(refusal(R"({"cores": [], "cores": []})") == "cores appears twice");
  CHECK(refusal(R"({})") == "nodes must list one NUMA node or more");
  const std::string node = R"({"nodes": [{"cpus": "0-1"}], )";
  CHECK(refusal(node + R"("core": []})") == "cores must list one core or more");
  CHECK(refusal(node + R"("cores": [{"cores": "0 1"}], "device": []})") ==
        "device is not known; did you mean devices?");
  CHECK(refusal(node + R"("cores": [{"cores": "0-"}]})") ==
        "cores[0].cores must be the CPUs of each core such as 0,64 1,65");
  CHECK(refusal(node + R"("cores": [{"cores": "0 1"}, {"cores": "1"}]})") ==
        "cores[1].cores holds CPU 1, which another core has");
  CHECK(refusal(node + R"("cores": [{"node": 1, "cores": "0"}]})") ==
        "cores[0].node must be between 0 and 0");
  CHECK(refusal(node + R"("cores": [{"package": 1, "cores": "0"}]})") ==
        "cores[0].package must be between 0 and 0");
  CHECK(refusal(node + R"("cores": [{"cores": "0"}]})") == "nodes[0].cpus holds CPU 1, which no core has");
  CHECK(refusal(node + R"("cores": [{"cores": "0 1"}], "distances": ["10 21"]})") ==
        "distances must be 1 rows of 1 numbers such as \"10 21\"");
  CHECK(refusal(node + R"("cores": [{"cores": "0 1"}], "devices": [{"kind": "fpga"}]})") ==
        "devices[0].kind must be gpu or network");
  CHECK(refusal(node + R"("cores": [{"cores": "0 1"}], "devices": [{"cpus": "9"}]})") ==
        "devices[0].cpus holds CPU 9, which no core has");
  CHECK(refusal(R"({"nodes": [{"number": 1}, {"number": 1}]})") ==
        "nodes[1].number must be above the one before it");
}

TEST_CASE("a complaint about a topology names the forms there are") {
  CHECK(error_of([] { parse_topology("[]", "\033.json"); }) ==
        "cannot use the topology \\x1b.json: the whole file must be an object | a topology is an XML file of "
        "hwloc 2 (lstopo node.xml), a JSON file (the \"topology\" of ddprun --capture), one of these on "
        "standard "
        "input (-), or a synthetic description such as \"pack:2 core:8 pu:2\" | 2");
}

TEST_CASE("a topology has limits") {
  CHECK(refusal(std::string((4 << 20) + 1, ' ')) == "it is larger than 4 MiB");
  CHECK(refusal(R"({"nodes": [{"cpus": "65536"}]})") == "nodes[0].cpus must be a list of CPUs such as 0-3,8");
  std::string devices;
  for (int i = 0; i < 4097; ++i) devices += i == 0 ? "{}" : ",{}";
  CHECK(refusal(R"({"nodes": [{}], "cores": [{"cores": "0"}], "devices": [)" + devices + "]}") ==
        "devices has more than 4096 entries");
}
