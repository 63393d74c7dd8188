#include "plan/rendezvous_plan.hpp"

#include <set>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::plan;

TEST_CASE("the port sequence follows from the launch key alone") {
  // Both sides of a launch may run different builds: these numbers are part of the protocol.
  CHECK(make_port_sequence("slurm/29/0/0") == make_port_sequence("slurm/29/0/0"));
  CHECK(make_port_sequence("slurm/29/0/0", 3) == std::vector<int>{23456, 24715, 27078});
}

TEST_CASE("the ports of a sequence differ and lie outside the ephemeral range") {
  for (int job = 0; job < 500; ++job) {
    const auto ports = make_port_sequence("slurm/" + std::to_string(job) + "/0/0");
    CHECK(std::set<int>(ports.begin(), ports.end()).size() == 8);
    for (const int port : ports) CHECK((port >= k_first_sequence_port && port < k_last_sequence_port));
  }
}

TEST_CASE("neighbouring jobs start from different ports") {
  std::set<int> first_ports;
  for (int job = 0; job < 200; ++job) {
    first_ports.insert(make_port_sequence("slurm/" + std::to_string(job) + "/0/0").front());
  }
  CHECK(first_ports.size() > 190);
}

TEST_CASE("a range may be given, and a small one is used up") {
  const auto ports = make_port_sequence("slurm/29/0/0", 8, {40000, 40099});
  CHECK(ports.size() == 8);
  for (const int port : ports) CHECK((port >= 40000 && port <= 40099));
  const auto few = make_port_sequence("slurm/29/0/0", 8, {29499, 29501});
  CHECK(std::set<int>(few.begin(), few.end()) == std::set<int>{29499, 29501});
  CHECK(make_port_sequence("slurm/29/0/0", 8, {29500, 29500}).empty());
}
