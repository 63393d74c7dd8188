#include "placement/nearest_nic.hpp"

#include <fmt/format.h>

#include <numeric>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::placement;

namespace {

std::vector<int> range(int first, int count) {
  std::vector<int> cpus(static_cast<std::size_t>(count));
  std::iota(cpus.begin(), cpus.end(), first);
  return cpus;
}

facts::PciDevice device(facts::DeviceKind kind, const std::string& address,
                        const std::vector<std::string>& names, const std::vector<std::string>& path,
                        const std::vector<int>& cpus) {
  return {kind, address, names, path, cpus};
}

CardSeeker with_gpu(int local_rank, const std::string& address) { return {{local_rank}, {address}, {}}; }

using Names = std::vector<std::string>;

// Eight GPUs, each behind a switch together with a card; the cards' numbers do not follow the GPUs'.
facts::Topology dgx() {
  facts::Topology topology;
  for (int i = 0; i < 8; ++i) {
    const std::vector<int> cpus = range(i / 4 * 56, 56);
    const std::vector<std::string> path{fmt::format("root{}", i / 4), fmt::format("switch{}", i)};
    topology.devices.push_back(device(facts::DeviceKind::network, fmt::format("0000:1{}:00.0", i),
                                      {fmt::format("mlx5_{}", 7 - i), fmt::format("ib{}", 7 - i)}, path,
                                      cpus));
    topology.devices.push_back(device(facts::DeviceKind::gpu, fmt::format("0000:2{}:00.0", i),
                                      {fmt::format("card{}", i)}, path, cpus));
  }
  return topology;
}

// Four GPUs and four Slingshot cards, one of each a NUMA node, the GPUs in the opposite order.
facts::Topology slingshot() {
  facts::Topology topology;
  for (int i = 0; i < 4; ++i) {
    topology.devices.push_back(device(facts::DeviceKind::network, fmt::format("0000:{}1:00.0", i),
                                      {fmt::format("hsn{}", i), fmt::format("cxi{}", i)},
                                      {fmt::format("bridge{}1", i)}, range(16 * i, 16)));
    topology.devices.push_back(device(facts::DeviceKind::gpu, fmt::format("0000:{}2:00.0", i), {},
                                      {fmt::format("bridge{}2", i)}, range(16 * (3 - i), 16)));
  }
  return topology;
}

facts::Topology two_cards(const std::vector<int>& first, const std::vector<int>& second) {
  facts::Topology topology;
  topology.devices = {device(facts::DeviceKind::network, "0000:01:00.0", {"mlx5_0"}, {"a"}, first),
                      device(facts::DeviceKind::network, "0000:02:00.0", {"mlx5_1"}, {"b"}, second)};
  return topology;
}

}  // namespace

TEST_CASE("a GPU's card is the one behind the same switch") {
  std::vector<CardSeeker> seekers;
  for (int i = 0; i < 8; ++i) seekers.push_back(with_gpu(i, fmt::format("0000:2{}:00.0", i)));
  CHECK(choose_network_cards(dgx(), seekers) ==
        Names{"mlx5_7", "mlx5_6", "mlx5_5", "mlx5_4", "mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0"});
  CHECK(choose_network_cards(dgx(), {with_gpu(5, "0000:22:00.0")}) == Names{"mlx5_5"});
}

TEST_CASE("without a bridge in common the card of the same CPUs is nearest") {
  std::vector<CardSeeker> seekers;
  for (int i = 0; i < 4; ++i) seekers.push_back(with_gpu(i, fmt::format("0000:{}2:00.0", i)));
  CHECK(choose_network_cards(slingshot(), seekers) == Names{"cxi3", "cxi2", "cxi1", "cxi0"});
}

TEST_CASE("workers without GPUs go by their CPUs") {
  const facts::Topology topology = two_cards(range(0, 8), range(8, 8));
  CHECK(choose_network_cards(topology, {{{0}, {}, {8, 9}}, {{1}, {}, {0, 1}}}) == Names{"mlx5_1", "mlx5_0"});
}

TEST_CASE("equally near cards are spread evenly, also by agents that choose for themselves") {
  const facts::Topology topology = two_cards({}, {});
  std::vector<CardSeeker> seekers;
  for (int i = 0; i < 5; ++i) seekers.push_back({{i}, {}, {i}});
  const Names together = choose_network_cards(topology, seekers);
  CHECK(together == Names{"mlx5_0", "mlx5_1", "mlx5_0", "mlx5_1", "mlx5_0"});
  for (std::size_t i = 0; i < seekers.size(); ++i) {
    CHECK(choose_network_cards(topology, {seekers[i]}).front() == together[i]);
  }
  // Every second worker is near them.
  CHECK(choose_network_cards(topology, {seekers[0], seekers[2]}) == Names{"mlx5_0", "mlx5_1"});
}

TEST_CASE("one card serves all, and what is no card of a fast network none") {
  facts::Topology topology;
  CHECK(choose_network_cards(topology, {{{0}, {}, {0}}}) == Names{""});
  topology.devices = {device(facts::DeviceKind::network, "0000:01:00.0", {"eth0"}, {}, {}),
                      device(facts::DeviceKind::network, "0000:02:00.0", {"ib0"}, {}, {}),
                      device(facts::DeviceKind::gpu, "0000:03:00.0", {"mlx5_9"}, {}, {})};
  CHECK(choose_network_cards(topology, {{{0}, {}, {0}}}) == Names{""});
  topology.devices.push_back(device(facts::DeviceKind::network, "0000:04:00.0", {"ib1", "hfi1_0"}, {}, {}));
  CHECK(choose_network_cards(topology, {{{0}, {}, {0}}, {{1}, {}, {1}}}) == Names{"hfi1_0", "hfi1_0"});
}

TEST_CASE("a card whose ports are down is for nobody, and where all are so nothing is set") {
  facts::Topology topology = two_cards(range(0, 8), range(8, 8));
  topology.devices[0].link = facts::CardLink::down;
  CHECK(choose_network_cards(topology, {{{0}, {}, {0}}, {{1}, {}, {8}}}) == Names{"mlx5_1", "mlx5_1"});
  topology.devices[1].link = facts::CardLink::down;
  CHECK(choose_network_cards(topology, {{{0}, {}, {0}}}) == Names{""});
  CHECK(why_no_card(topology, "n1") == "no port of mlx5_0, mlx5_1 is active on n1");
}

TEST_CASE("what is an RDMA device is told by the kernel, not by its name") {
  facts::Topology topology = two_cards({}, {});
  topology.devices[0].names = {"ibp0s0", "ibs1"};
  topology.devices[0].rdma = "ibp0s0";
  topology.devices[1].names = {"rocep1s0"};
  topology.devices[1].rdma = "rocep1s0";
  CHECK(choose_network_cards(topology, {{{0}, {}, {}}, {{1}, {}, {}}}) == Names{"ibp0s0", "rocep1s0"});
}

TEST_CASE("InfiniBand goes before as many Ethernet cards, however near these are") {
  facts::Topology topology = two_cards(range(0, 8), range(8, 8));
  topology.devices[0].link = facts::CardLink::infiniband;
  topology.devices[1].link = facts::CardLink::ethernet;
  const std::vector<CardSeeker> seekers{{{0}, {}, {8}}, {{1}, {}, {9}}};
  CHECK(choose_network_cards(topology, seekers) == Names{"mlx5_0", "mlx5_0"});
  // A fabric of Ethernet with one InfiniBand card for storage.
  topology.devices.push_back(topology.devices[1]);
  topology.devices.back().names = {"mlx5_2"};
  CHECK(choose_network_cards(topology, seekers) == Names{"mlx5_1", "mlx5_2"});
  topology.devices[0].link = facts::CardLink::down;
  CHECK(choose_network_cards(topology, {{{0}, {}, {0}}}) == Names{"mlx5_1"});
}

TEST_CASE(
    "without CPUs in common the card in the package is nearest, and in it the one at the least distance") {
  facts::Topology topology;
  topology.packages = 2;
  for (int node = 0; node < 6; ++node) {
    topology.cores.push_back({{node}, node / 3, node, node});
    topology.nodes.push_back({node, {node}, 0});
  }
  topology.distances = {{10, 12, 11, 32, 32, 32}, {12, 10, 12, 32, 32, 32}, {11, 12, 10, 32, 32, 32},
                        {32, 32, 32, 10, 12, 12}, {32, 32, 32, 12, 10, 12}, {32, 32, 32, 12, 12, 10}};
  topology.devices = {device(facts::DeviceKind::network, "0000:01:00.0", {"mlx5_0"}, {"a"}, {1}),
                      device(facts::DeviceKind::network, "0000:02:00.0", {"mlx5_1"}, {"b"}, {2}),
                      device(facts::DeviceKind::network, "0000:03:00.0", {"mlx5_2"}, {"c"}, {3}),
                      device(facts::DeviceKind::gpu, "0000:04:00.0", {}, {"d"}, {0}),
                      device(facts::DeviceKind::gpu, "0000:05:00.0", {}, {"e"}, {5})};
  CHECK(choose_network_cards(topology, {with_gpu(0, "0000:04:00.0"), with_gpu(1, "0000:05:00.0")}) ==
        Names{"mlx5_1", "mlx5_2"});
}

TEST_CASE("EFA cards are left to libfabric, and the message says so") {
  facts::Topology topology = two_cards({}, {});
  topology.devices[0].names = {"rdmap79s0"};
  topology.devices[1].names = {"efa_0"};
  CHECK(choose_network_cards(topology, {{{0}, {}, {}}}) == Names{""});
  CHECK(why_no_card(topology, "n1") ==
        "the cards of n1 are EFA (rdmap79s0, efa_0), among which libfabric chooses");
  CHECK(why_no_card({}, "n1") == "no InfiniBand, RoCE, Omni-Path or Slingshot card is seen on n1");
}

TEST_CASE("each kind of card has its variable") {
  const auto show = [](const std::string& card) {
    const CardVariable variable = card_variable(card);
    return variable.name + " " + variable.value;
  };
  CHECK(show("mlx5_2") == "NCCL_IB_HCA =mlx5_2");
  CHECK(show("bnxt_re0") == "NCCL_IB_HCA =bnxt_re0");
  CHECK(show("cxi1") == "FI_CXI_DEVICE_NAME cxi1");
}
