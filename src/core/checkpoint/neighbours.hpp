// Neighbours that keep copies of each other's checkpoints.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::checkpoint {

struct Place {
  AgentIndex agent;
  std::string host;
  std::string unit;  // switch or NVLink domain; empty: not known
};

// Returns, for each agent, the one whose parts it copies: each has at most one, and is copied by at most one.
// It is on the next host, on one of the next switch where none has more than half of the agents. None for an
// agent for which every other host has its own already.
std::map<AgentIndex, AgentIndex> choose_neighbours(const std::vector<Place>& places);

}  // namespace ddprun::checkpoint
