// State of the job that every agent is sent, so that the job can continue without the coordinator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::rendezvous {

inline constexpr std::size_t k_max_successors = 8;  // all of different hosts
inline constexpr std::size_t k_max_successor_addresses = 4;
inline constexpr std::size_t k_max_place_ranges = 256;  // in one roll; if it has more, no agent takes over
inline constexpr std::size_t k_max_rolls = 8;

struct PlaceRange {
  int first = 0;
  int last = 0;
  friend bool operator==(const PlaceRange&, const PlaceRange&) = default;
};

// Convert ascending places to ranges, and back.
std::vector<PlaceRange> to_ranges(const std::vector<AgentIndex>& places);
std::vector<AgentIndex> from_ranges(const std::vector<PlaceRange>& ranges);

// The agents that were here when an attempt was begun, spares too: those that count for a majority.
struct Roll {
  int number = 0;  // from 1 on, one more whenever the agents change
  std::vector<PlaceRange> agents;
  friend bool operator==(const Roll&, const Roll&) = default;
};

// An agent that listens, and coordinates when those before it are lost.
struct Successor {
  AgentIndex place;
  std::string host;
  std::vector<std::string> addresses;  // numeric, best first
  int port = 0;
  friend bool operator==(const Successor&, const Successor&) = default;
};

// Request for the end of the job.
struct Ending {
  int signal = 0;
  std::string host;  // host of the signalled process
  friend bool operator==(const Ending&, const Ending&) = default;
};

// Sent before each Start and Standby, and when it changes meanwhile.
struct Roster {
  std::vector<Roll> rolls;            // each needs a majority (quorum.hpp); the latest is the last
  AgentIndex coordinator;             // place of the coordinator
  std::string host;                   // host of the coordinator
  std::vector<Successor> successors;  // in order; never the coordinator
  Attempt attempt;                    // the latest that was begun, or is about to
  int used_restarts = 0;
  std::string launch_id;
  std::optional<Ending> ending;  // once all workers have stopped
  // Part of the agent that receives the roster:
  AgentIndex own;
  std::optional<int> slot;  // place among those that take part; nullopt: it waits
  bool counts = false;      // in the latest roll; else at most one that was there before it
  bool aside = false;       // set aside, as it failed first again and again; used if too few others are there
  int number() const { return rolls.empty() ? 0 : rolls.back().number; }
  friend bool operator==(const Roster&, const Roster&) = default;
};

// State that an agent joins the next coordinator with after it has lost its own.
struct Survivor {
  Roster roster;           // latest roster of the last coordinator
  std::vector<int> ended;  // places of coordinators whose ddprun has ended; what became of others is unknown
  friend bool operator==(const Survivor&, const Survivor&) = default;
};

}  // namespace ddprun::rendezvous
