#include "allocation/network_place.hpp"

#include "base/error.hpp"
#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

TEST_CASE("srun's address of a node names its switches") {
  CHECK(parse_topology_address("s0.leaf2.n17", "switch.switch.node") == "s0/leaf2");
  CHECK(parse_topology_address("b1.n17.cluster.org", "block.node") == "b1");
  CHECK(parse_topology_address("n17", "node").empty());
  CHECK(parse_topology_address("", "").empty());
  CHECK(parse_topology_address("n17", "switch.node").empty());
  CHECK(parse_topology_address("s\n0.n17", "switch.node").empty());
}

TEST_CASE("a torn or circular topology is of no use, and does no harm") {
  CHECK(parse_shown_topology("").empty());
  CHECK(parse_shown_topology("SwitchName=s0 Level=0 Nodes=n[1-").empty());
  CHECK(parse_shown_topology("slurm_load_topo: Unable to contact slurm controller").empty());
  const auto places = parse_shown_topology(
      "SwitchName=a Level=0 Nodes=n1\nSwitchName=b Level=1 Switches=a,c\nSwitchName=c Level=2 Switches=b\n");
  CHECK(places.at("n1").switches.ends_with("b/a"));
}

TEST_CASE("a file gives an order, or the switches") {
  const NetworkPlaces order =
      parse_host_order("# rack 7\nn4\n\n  n[2-3]  # and these\nN1.example.org\n", "f");
  CHECK(order.at("n4").position == 0);
  CHECK(order.at("n3").position == 2);
  CHECK(order.at("n1").position == 3);
  const NetworkPlaces switches = parse_host_order("n[1-2] s0/leaf1\nn3\ts0/leaf2", "f");
  CHECK(switches.at("n2") == NetworkPlace{{}, "s0/leaf1", {}});
  CHECK(switches.at("n3").switches == "s0/leaf2");
}

TEST_CASE("a bad line of such a file is told") {
  const auto error = [](const char* text) { return error_of([&] { parse_host_order(text, "order"); }); };
  CHECK(error("n1\nn1\n").starts_with("order names n1 again in line 2"));
  CHECK(error("n1 s0\nn2\n").starts_with("order lacks the switches that other lines have in line 2"));
  CHECK(error("n1\nn2 s0\n").starts_with("order has switches, which the lines before lack, in line 2"));
  CHECK(error("n[1-\n").starts_with("order has a bad host list"));
  CHECK(error("n1 s0 s1\n").starts_with("order has a bad path 's0 s1' in line 1"));
  CHECK(error("# nothing\n").starts_with("order names no host up to its end in line 2"));
}

TEST_CASE("a name of an HPE Cray EX system is a place") {
  CHECK(find_cabinet("x3004c0s13b0n0") == "x3004/c0");
  CHECK(find_cabinet("X1000C7s0b1n1.hostmgmt.cm") == "x1000/c7");
  for (const char* other : {"", "n1", "x3004", "x3004c0s13b0", "x3004c0s13b0n0h1", "xc0s0b0n0"})
    CHECK(find_cabinet(other).empty());
}
