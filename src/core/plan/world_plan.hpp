// Ranks for all, from what every agent announced: made by the coordinator.
// The result is the same after every restart unless other agents take part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/network_place.hpp"
#include "base/duration.hpp"
#include "base/ids.hpp"
#include "facts/program.hpp"
#include "plan/node_proposal.hpp"

namespace ddprun::plan {

// Decision whether the workers of each node reach the store through a relay on it.

inline bool has_store_relays(const NodeProposal& node) {
  return node.rendezvous.agents > 1 && node.options.store == options::StoreHost::agent &&
         options::wants_tree(node.options.store_tree, node.world_size.value);
}

inline constexpr int k_max_world = 1 << 24;  // workers of one launch

// Worker of an agent as the other agents of its host have to know it.
struct LocalPeerWorker {
  std::string device;             // PlannedWorker::device
  std::vector<std::string> gpus;  // PCI addresses
  friend bool operator==(const LocalPeerWorker&, const LocalPeerWorker&) = default;
};

// Facts that one agent sends the coordinator about itself.
struct Announcement {
  std::optional<AgentIndex> agent;  // nullopt: the coordinator finds it a place
  std::string host;                 // the scheduler's spelling
  // Position of the host in the scheduler's order. nullopt: no launcher tells; nodes are then ordered by the
  // lowest launcher_rank on them, for all agents alike.
  std::optional<NodeIndex> node;
  int workers = 1;
  std::optional<GlobalRank> fixed_rank;  // one agent a task: the scheduler's rank of its only worker
  // The launcher's number of this agent, also where it starts several workers.
  std::optional<GlobalRank> launcher_rank;
  // True if one agent a node is an assumption: if another host has several agents, this one has one worker,
  // whose rank is launcher_rank.
  bool style_assumed = false;
  LocalRank first_local_rank;  // one agent a task: its place on the host; else 0
  std::string role = "default";
  int max_restarts = 0;
  // Silence after which the coordinator loses it, and it the coordinator earlier, if the job continues
  // without a node (rendezvous/host_limits.hpp). nullopt: the job ends then.
  std::optional<Milliseconds> host_timeout{};
  std::vector<std::string> addresses;  // numeric ones of its host, best first: the store is reached there
  std::vector<int> store_ports;        // kept free for the worker of rank 0, where that hosts the store
  std::string cpus;                    // its affinity mask, "0-63"; empty: it binds nothing
  std::vector<LocalPeerWorker> local_workers;  // set where it stands for one task of several on its host
  facts::PythonFacts python;  // Python of its workers; empty if they run something else or nobody looked
  bool for_tasks = false;     // NodeProposal::for_tasks: where every agent's is set, asked_tasks decide
  std::string
      asked_tasks{};         // allocation::write_asked_tasks, from the coordinator's agent; empty: none known
  bool counted = false;      // `workers` follows from what this host has, not from a number of the user's
  std::string missing_gpus;  // VisibleDevices::missing
  int relay_port = 0;        // port at which relays to the store reach it; 0: none
  // Addresses at which it serves copies and checkpoints (staging::Server); empty: none.
  std::string stage_door, checkpoint_door;
  int pid = 0;                       // process number of this agent; 0: not known
  int successor_port = 0;            // port at which it listens if it has to coordinate; 0: none
  allocation::NetworkPlace network;  // with --order; else nothing is known
  friend bool operator==(const Announcement&, const Announcement&) = default;
};

// Address of the next store of the tree, for a relay.
struct StorePlace {
  std::vector<std::string> addresses;  // numeric, best first
  int port = 0;
  friend bool operator==(const StorePlace&, const StorePlace&) = default;
};

// Place of one worker in the world.
struct RankAssignment {
  GlobalRank rank;
  LocalRank local_rank;
  int role_rank = 0;
  int role_world_size = 1;
  friend bool operator==(const RankAssignment&, const RankAssignment&) = default;
};

// An agent of the same host, oneself included.
struct LocalPeer {
  LocalRank first_local_rank;
  bool same_cpus = false;  // has the same affinity mask as the agent that is told
  std::vector<LocalPeerWorker> workers;
  friend bool operator==(const LocalPeer&, const LocalPeer&) = default;
};

// Share of one agent in the world: all that its workers' environment needs.
struct Assignment {
  Attempt attempt;
  int world_size = 1;
  int local_world_size = 1;  // workers on this host
  NodeIndex node;            // GROUP_RANK
  int node_count = 1;        // GROUP_WORLD_SIZE
  std::string master_address;
  int master_port = 0;
  // Every agent stands for one worker, also one that assumed it was alone on its node (style_assumed).
  bool agent_per_task = false;
  bool several_workers = false;  // some agent of the launch, this one or another, starts more than one
  std::string workers_of_nodes;  // in Slurm's spelling, "4(x2),3"; empty where that is too long to send
  std::string run_id;            // the coordinator's, on all nodes
  std::string launch_id;         // a random number, the same on all nodes
  std::vector<RankAssignment> workers;  // in this agent's own order of workers
  // Agents of the same host by first local rank. Empty: this agent is alone on its host, or none of the
  // others concerns it.
  std::vector<LocalPeer> local_peers;
  // Stores that this host's relay tries, in that order. Empty: the workers connect to the store itself.
  std::vector<StorePlace> store_places{};
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

std::vector<int> ranks_of(const Assignment& assignment);  // in its order of workers

struct WorldPlan {
  int world_size = 0;
  std::vector<Assignment> assignments;  // address, port and the ids are the coordinator's
};

// Handling of gaps in the numbers of nodes, ranks and local ranks, which a launch that continues without some
// agents has. Closed, the numbers follow each other again, in the same order.
enum class Gaps { refused, closed };

// Reports whether every agent stands for one worker, whose rank is the launcher's.
bool is_agent_per_task(const std::vector<Announcement>& announcements);
// Gives every agent the workers that the job's tasks on its host ask for, if they decide on all hosts.
void settle_tasks(std::vector<Announcement>& announcements);
// Returns "4(x2),3" for 4, 4, 3.
std::string write_counts(const std::vector<int>& workers_of_nodes);

// Checks the announcements against each other and lays out ranks: node order, then local rank; with fixed
// ranks, the scheduler's. Throws Error naming the host for gaps, duplicates or agents that disagree.
// Assignments are in the order of the announcements.
WorldPlan make_world_plan(const std::vector<Announcement>& announcements, Gaps gaps = Gaps::refused);

}  // namespace ddprun::plan
