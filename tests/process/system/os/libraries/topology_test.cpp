#include "os/libraries/topology.hpp"

#include <fstream>
#include <optional>

#include "catch.hpp"
#include "error_text.hpp"
#include "facts/proc_text.hpp"
#include "os/files/temp_dir.hpp"
#include "os/process/child_call.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::os;

namespace {

const std::string k_example = DDPRUN_TEST_DATA "/topologies/two-packages.xml";

// A file with this name and contents, and its path.
std::string write_file(const TempDir& folder, const std::string& name, const std::string& contents) {
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path) << contents;
  return path;
}

std::string read_example() {
  std::ifstream file(k_example);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The example with `from` replaced.
std::string changed_example(const std::string& from, const std::string& to) {
  std::string text = read_example();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& source) {
  const std::string text = error_of([&] { load_topology(source); });
  const std::string start = "cannot use the topology " + source + ": ";
  const std::string end = std::string(" | ") + facts::k_topology_forms + " | 2";
  if (!text.starts_with(start) || !text.ends_with(end)) return text;
  return text.substr(start.size(), text.size() - start.size() - end.size());
}

}  // namespace

TEST_CASE("an XML file is the whole node with its memory, distances and devices") {
  const facts::Topology topology = load_topology(k_example);
  CHECK(topology.source == "two-packages.xml");
  CHECK(topology.packages == 2);
  CHECK(topology.cores ==
        std::vector<facts::Core>{{{0, 1}, 0, 0, 0}, {{2, 3}, 0, 0, 0}, {{4, 5}, 1, 1, 1}, {{6, 7}, 1, 1, 1}});
  // HBM has no CPUs of its own, whatever it is near to.
  CHECK(topology.nodes == std::vector<facts::MemoryNode>{
                              {0, {0, 1, 2, 3}, 1 << 30}, {1, {4, 5, 6, 7}, 1 << 30}, {2, {}, 1 << 29}});
  CHECK(topology.distances == std::vector<std::vector<int>>{{10, 21, 13}, {21, 10, 23}, {13, 23, 10}});
  const std::vector<std::string> bridges{"0000:c0:01.1", "0000:c1:00.0"};
  // The card under the whole machine is one whose place the firmware did not tell; the board's graphics are
  // left out.
  CHECK(topology.devices ==
        std::vector<facts::PciDevice>{
            {facts::DeviceKind::network, "0000:02:00.0", {"eno1"}, {}, {}},
            {facts::DeviceKind::gpu, "0000:c2:00.0", {"card1"}, bridges, {4, 5, 6, 7}, "nvidia"},
            {facts::DeviceKind::network,
             "0000:c2:01.0",
             {"ib0", "mlx5_0"},
             bridges,
             {4, 5, 6, 7},
             "",
             "",
             1,
             "mlx5_0"}});
}

TEST_CASE("XML tells the node's name and the CPUs that are left to programs") {
  const TempDir folder(std::nullopt);
  CHECK(load_topology(k_example).host.empty());
  CHECK(load_topology(k_example).allowed == std::vector<int>{0});
  const std::string changed = changed_example("<object type=\"Package\" os_index=\"0\"",
                                              "<info name=\"HostName\" value=\"jwb0001\"/>\n"
                                              "<object type=\"Package\" os_index=\"0\"");
  const facts::Topology node = load_topology(write_file(folder, "node.xml", changed));
  CHECK(node.host == "jwb0001");
  CHECK(load_topology(write_file(folder, "node.json", facts::render_topology(node))) == node);
}

TEST_CASE("XML tells a card's link and whether a port is active") {
  const TempDir folder(std::nullopt);
  const auto card_with = [&](const std::string& infos) {
    const std::string name = "<object type=\"OSDev\" gp_index=\"57\" name=\"";
    const std::string changed = changed_example(name + "mlx5_0\" osdev_type=\"3\"/>",
                                                name + "ibp0s0\" osdev_type=\"3\">" + infos + "</object>");
    return load_topology(write_file(folder, "node.xml", changed)).devices.back();
  };
  const auto port = [](const char* number, const char* state, const char* lid) {
    return std::string("<info name=\"Port") + number + "State\" value=\"" + state + "\"/><info name=\"Port" +
           number + "LID\" value=\"" + lid + "\"/>";
  };
  CHECK(card_with("").rdma == "ibp0s0");
  CHECK(card_with("").link == facts::CardLink::unknown);
  CHECK(card_with(port("1", "4", "0x1a4")).link == facts::CardLink::infiniband);
  CHECK(card_with(port("1", "4", "0x0")).link == facts::CardLink::ethernet);
  CHECK(card_with(port("1", "1", "0x0")).link == facts::CardLink::down);
  CHECK(card_with(port("1", "1", "0x0") + port("2", "4", "0x7")).link == facts::CardLink::infiniband);
}

TEST_CASE("XML tells vendor, model and partitions of a GPU") {
  const TempDir folder(std::nullopt);
  const auto gpu_with = [&](const std::string& id, const std::string& children) {
    std::string text = changed_example("0302 [10de:20b0]", id);
    const std::string card =
        "<object type=\"OSDev\" gp_index=\"54\" name=\"card1\" subtype=\"GPU\" "
        "osdev_type=\"1\"/>";
    text.replace(text.find(card), card.size(), children);
    const facts::Topology node = load_topology(write_file(folder, "node.xml", text));
    for (const facts::PciDevice& device : node.devices) {
      if (device.kind == facts::DeviceKind::gpu) return device;
    }
    return facts::PciDevice{};
  };
  const auto device = [](int number, const std::string& name, const std::string& inside = "") {
    return "<object type=\"OSDev\" gp_index=\"" + std::to_string(100 + number) + "\" name=\"" + name +
           "\" osdev_type=\"5\">" + inside + "</object>";
  };
  const std::string model = "<info name=\"GPUModel\" value=\"MI300A\"/>";
  const facts::PciDevice amd =
      gpu_with("1200 [1002:74a0]", device(0, "rsmi0", model) + device(1, "rsmi1") + device(2, "rsmi2"));
  CHECK(amd.vendor == "amd");
  CHECK(amd.model == "MI300A");
  CHECK(amd.parts == 3);
  CHECK(gpu_with("0300 [1002:66a1]", "").parts == 1);
  // Flat and composite, and without Level Zero the card's own number of tiles.
  CHECK(gpu_with("0380 [8086:0bd5]", device(0, "ze0") + device(1, "ze1")).parts == 2);
  CHECK(gpu_with("0380 [8086:0bd5]", device(0, "ze0", device(1, "ze0.0") + device(2, "ze0.1"))).parts == 2);
  CHECK(gpu_with("0380 [8086:0bd5]", "").parts == 2);
  CHECK(gpu_with("0380 [8086:0bda]", "").parts == 1);
}

TEST_CASE("XML tells the kinds of cores by their names, not by their frequencies") {
  const TempDir folder(std::nullopt);
  const auto kinds_with = [&](const std::string& first, const std::string& second) {
    const std::string changed =
        changed_example("</topology>", "<cpukind cpuset=\"0x0000000f\"><info name=\"" + first +
                                           "\"/></cpukind><cpukind cpuset=\"0x000000f0\"><info name=\"" +
                                           second + "\"/></cpukind></topology>");
    std::string text;
    for (const facts::Core& core : load_topology(write_file(folder, "node.xml", changed)).cores)
      text += std::to_string(core.kind);
    return text;
  };
  CHECK(kinds_with("CoreType\" value=\"IntelCore", "CoreType\" value=\"IntelAtom") == "0011");
  CHECK(kinds_with("FrequencyMaxMHz\" value=\"3500", "FrequencyMaxMHz\" value=\"3400") == "0000");
}

TEST_CASE("cores of which no NUMA node is told are not the first node's") {
  const TempDir folder(std::nullopt);
  // The second package has lost its node.
  std::string text = read_example();
  const std::size_t node = text.find("<object type=\"NUMANode\" os_index=\"1\"");
  REQUIRE(node != std::string::npos);
  text.erase(node, text.find("</object>", node) + 9 - node);
  text.erase(text.find("<distances2"), text.find("</distances2>") + 13 - text.find("<distances2"));
  const facts::Topology topology = load_topology(write_file(folder, "node.xml", text));
  REQUIRE(topology.nodes.size() == 3);
  CHECK(topology.nodes[2] == facts::MemoryNode{3, {4, 5, 6, 7}, 0});
  CHECK(topology.cores.back().node == 2);
  CHECK(topology.nodes[0].cpus == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("what hwloc 3 or gzip wrote is refused with what to do") {
  const TempDir folder(std::nullopt);
  const auto refused = [&](const std::string& contents) {
    return error_of([&] { load_topology(write_file(folder, "node", contents)); });
  };
  const std::string start = "cannot use the topology " + folder.path() + "/node: ";
  CHECK(refused(changed_example("<topology version=\"2.0\"", "<topology version=\"3.0\"")) ==
        start +
            "hwloc 3 wrote it, and ddprun reads the XML of hwloc 1 and 2 | "
            "write it for hwloc 2: lstopo --export-xml-flags v2 node.xml | 2");
  CHECK(refused("\x1f\x8b\x08") ==
        start +
            "it is compressed by gzip | "
            "gunzip it first: gunzip -c FILE | ddprun --topology - --dry-run ... | 2");
}

TEST_CASE("a topology comes from standard input too") {
  const ChildAnswer answer = call_in_child(
      [] {
        std::freopen(k_example.c_str(), "r", stdin);
        return facts::render_topology(load_topology("-"));
      },
      Milliseconds{20000});
  REQUIRE(answer.bytes);
  const facts::Topology topology = facts::parse_topology(*answer.bytes, "answer");
  CHECK(topology.source == "standard input");
  CHECK(topology.cores.size() == 4);
}

TEST_CASE("a synthetic description is a node") {
  const facts::Topology topology = load_topology("pack:2 numa:2 l3:2 core:4 pu:2(indexes=core)");
  CHECK(topology.source == "pack:2 numa:2 l3:2 core:4 pu:2(indexes=core)");
  CHECK(topology.packages == 2);
  CHECK(topology.cores.size() == 32);
  CHECK(topology.cores[0].cpus == std::vector<int>{0, 32});
  CHECK(topology.cores[31] == facts::Core{{31, 63}, 1, 3, 7});
  REQUIRE(topology.nodes.size() == 4);
  CHECK(facts::render_cpu_list(topology.nodes[1].cpus) == "8-15,40-47");
}

TEST_CASE("cores share the L2 where there is no L3, and their NUMA node where there is none") {
  const auto caches = [](const char* description) {
    std::string text;
    for (const facts::Core& core : load_topology(description).cores) text += std::to_string(core.cache);
    return text;
  };
  CHECK(caches("pack:1 l3:2 core:2 pu:1") == "0011");
  CHECK(caches("pack:1 l3:1 l2:2 core:2 pu:1") == "0000");
  CHECK(caches("pack:1 l2:2 core:2 pu:1") == "0011");
  CHECK(caches("pack:1 numa:2 core:2 pu:1") == "0011");
  CHECK(caches("pack:2 core:2 pu:1") == "0011");
}

TEST_CASE("CPUs without cores are cores") {
  const facts::Topology topology = load_topology("pu:3");
  CHECK(topology.cores == std::vector<facts::Core>{{{0}, 0, 0, 0}, {{1}, 0, 0, 0}, {{2}, 0, 0, 0}});
  CHECK(topology.packages == 1);
}

TEST_CASE("a JSON file is a node") {
  const TempDir folder(std::nullopt);
  const facts::Topology node = load_topology(k_example);
  CHECK(load_topology(write_file(folder, "node.json", facts::render_topology(node))) == node);
}

TEST_CASE("a topology that cannot be used is named with its reason") {
  const TempDir folder(std::nullopt);
  const auto refused = [&](const std::string& contents) {
    return refusal(write_file(folder, "node", contents));
  };
  CHECK(refusal("pack:2 core:x pu:2") ==
        "hwloc reports: Synthetic string doesn't have a number of objects at 'x pu:2'");
  CHECK(refusal("gone.xml") == "no such file or directory");
  CHECK(refused("pack 2") == "it is neither XML nor JSON");
  CHECK(refused("{\"nodes\": []}") == "nodes must list one NUMA node or more");
  CHECK(refused("<html></html>") == "it is not XML as hwloc writes it");
  CHECK(refused(read_example().substr(0, 1000)) == "it is not XML as hwloc writes it");
  CHECK(refused(changed_example("\"Machine\"", "\"Machina\"")) ==
        "hwloc reports: unrecognized object type string Machina");
  CHECK(refused(changed_example("\"Machine\"", "\"\033[2J\"")) ==
        "hwloc reports: unrecognized object type string \\x1b[2J");
  CHECK(error_of([&] { load_topology(folder.path()); }) ==
        "cannot read " + folder.path() + ": is a directory |  | 2");
}

TEST_CASE("hwloc's variables do not make this machine another one") {
  const ChildAnswer answer = call_in_child(
      [] {
        ::setenv("HWLOC_SYNTHETIC", "pack:7 core:7 pu:7", 1);
        ::setenv("HWLOC_COMPONENTS", "stop", 1);
        return facts::render_topology(discover_topology());
      },
      Milliseconds{20000});
  REQUIRE(answer.bytes);
  CHECK(facts::parse_topology(*answer.bytes, "answer").packages != 7);
}
