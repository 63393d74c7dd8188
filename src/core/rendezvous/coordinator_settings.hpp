// Settings of a coordinator that are known before the launch, and its time limits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "base/duration.hpp"
#include "base/ids.hpp"
#include "options/options.hpp"
#include "plan/launch_nodes.hpp"

namespace ddprun::rendezvous {

// --nnodes MIN:MAX, --spares
struct ElasticNodes {
  int least = 1;
  int spares = 0;  // agents that wait until they are needed
  // Time that the others may take once MIN nodes have come. nullopt: they are known, and join_timeout counts.
  std::optional<Milliseconds> last_call;
  options::Grow grow = options::Grow::now;
};

// State of an agent that coordinates since the one before is lost.
struct Takeover {
  std::string why;  // "lost n1, the coordinator: the other side closed the connection"
  Milliseconds host_timeout;
};

// --checkpoint-memory
struct CheckpointSettings {
  std::string flush;                        // --checkpoint-flush; empty: no folder
  std::optional<Milliseconds> flush_every;  // nullopt: at the end of the job only
  Milliseconds flush_limit{600000};         // for that at the end
  std::optional<Milliseconds> kill_after;   // time from the scheduler's signal to its SIGKILL
};

struct CoordinatorSettings {
  int agents = 1;
  AgentIndex own;           // the place of this process' agent
  bool succession = false;  // should the coordinator be lost, another agent takes over
  std::optional<Takeover> takeover;
  std::optional<ElasticNodes> elastic;
  // Time for which a lost agent may come back to its place, where something or somebody may start it again.
  // Each time uses one of max_restarts. Unset with `elastic`, and where no agent comes back.
  std::optional<Milliseconds> return_timeout{};
  bool independent = false;        // a lost agent costs the others nothing, and they go on
  bool looks_at_spares = false;    // before a restart
  bool by_network = false;         // --order: ranks in the order of Announcement::network
  int domain_size = 0;             // Options::domain_size
  int replace_after = 2;           // CheckOptions::replace_after
  std::vector<std::string> peers;  // host names by agent index, empty where unknown; [own] is this host
  std::string version;             // version of ddprun
  std::string run_id;              // Assignment::run_id of all agents
  std::string launch_id;           // Assignment::launch_id of all agents
  int max_restarts = 0;
  options::RestartOptions restarts;
  options::TimeLimitOptions time_limit{};
  Milliseconds join_timeout{600000};
  Milliseconds stop_timeout{40000};   // from Stop to Stopped: the agents' grace and a margin
  Milliseconds probe_timeout{30000};  // from Probe to Probed
  // Time for which an agent that does not answer is waited for once all others wait for it alone. If unset no
  // agent is asked whether it runs.
  std::optional<Milliseconds> silence{};
  std::vector<std::string> addresses;  // addresses of this host, numeric, best first
  std::string named_address;  // the user's word for MASTER_ADDR: no other is taken; empty: no such word
  int port = 0;               // port where this process listens for agents, named in Probe
  // Explanation shown if no other agent has joined for a while.
  std::optional<allocation::Notice> when_alone;
  std::string cannot_start;     // reason why nothing can be started: every agent that joins is sent it
  bool record = false;          // wants Record actions
  bool live = false;            // ShowStatus goes to a terminal: every second, with the time
  int store_fan_out = 0;        // children of each relay to the store that this process serves; 0: no relays
  bool connects = false;        // workers are expected to connect to the store, and on_connections is told
  Milliseconds grace{30000};    // grace period of the workers, for messages
  options::HangOptions hang{};  // answer to a hang and to a slow rank
  std::optional<CheckpointSettings> checkpoints{};  // nullopt: none are kept
  std::string program;                              // program of the workers, as in Failure
  std::optional<plan::ExpectedNodes> nodes;         // to compare with where the agents are
};

}  // namespace ddprun::rendezvous
