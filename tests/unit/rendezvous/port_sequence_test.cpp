#include "ddprun/rendezvous/port_sequence.hpp"

#include <set>

#include "catch.hpp"

using namespace ddprun;

TEST_CASE("both sides derive the same ports from the launch key, and keep doing so in later releases") {
  CHECK(rendezvous_ports("slurm/29/0/0") == rendezvous_ports("slurm/29/0/0"));
  CHECK(rendezvous_ports("slurm/29/0/0", 3) == std::vector<int>{23456, 24715, 27078});
}

TEST_CASE("the ports are different, in their range and another set for each step") {
  std::set<std::vector<int>> sequences;
  for (int step = 0; step < 200; ++step) {
    const std::vector<int> ports = rendezvous_ports("slurm/29/0/" + std::to_string(step));
    CHECK(ports.size() == 8);
    CHECK(std::set<int>(ports.begin(), ports.end()).size() == ports.size());
    for (const int port : ports) {
      CHECK(port >= k_first_rendezvous_port);
      CHECK(port <= k_last_rendezvous_port);
      CHECK(port != 29500);
    }
    sequences.insert(ports);
  }
  CHECK(sequences.size() == 200);
}
