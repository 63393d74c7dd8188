// Offer of this ddprun, from its own host and environment alone.
// Made once, before it meets the others; what it does follows when it knows its share of the world
// (plan/finalise.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "allocation/allocation.hpp"
#include "allocation/network_place.hpp"
#include "facts/snapshot.hpp"
#include "options/options.hpp"
#include "site/site.hpp"

namespace ddprun::plan {

// A variable that differs from ddprun's own environment.
struct VariableChange {
  std::string name;
  std::optional<std::string> value;  // nullopt: removed
  std::string origin;
  bool open = false;  // --dry-run cannot tell the value: it shows when the hosts have met
  friend bool operator==(const VariableChange&, const VariableChange&) = default;
};

struct OfferedWorker {
  LocalRank local_rank;
  GlobalRank expected_rank;          // rank as NodeProposal::rank_origin explains it
  std::vector<std::string> command;  // empty where there is none to start (--dry-run=env, --capture)
  // Entries of the visible devices this worker stands for, joined by ','; empty: none or not told apart.
  std::string device;
  std::vector<int> gpus{};  // indices of known ones in HostFacts::gpus
};

enum class RendezvousRole { solo, coordinator, member };

// Roles and addresses by which the agents of one launch find each other.
struct RendezvousPlan {
  RendezvousRole role = RendezvousRole::solo;
  int agents = 1;
  AgentIndex agent;  // this process; 0 coordinates
  // The coordinator numbers the members as they come; `agent` of a member is an assumption. Of several agents
  // on the coordinator's host the one that gets the port coordinates.
  bool by_arrival = false;
  std::string key;                 // launch_key: what strangers do not share
  std::vector<std::string> peers;  // host name by agent index, for "waiting for ..."
  // Names or numeric addresses of the coordinator, best first. Empty: only the two ways below tell.
  Sourced<std::vector<std::string>> addresses;
  Sourced<std::vector<int>> ports;  // the coordinator binds the first it can; members try all
  // Tried by members beside those, a moment later. Where the user named the port and it is taken, the
  // coordinator says so here; else it binds the first of these where all of `ports` are taken.
  std::vector<int> spare_ports;
  // The launcher's key-value space: the coordinator puts its address there, and all agents take part. Either
  // all agents of a launch do this or none, so it follows from what all of them see.
  allocation::KeyValueSpace key_value_space = allocation::KeyValueSpace::none;
  // A file on a file system that all hosts share: the coordinator writes where it listens, members look for
  // it beside the addresses above. Empty: not used.
  Sourced<std::string> rendezvous_file;
  std::vector<std::size_t> order;  // agents in the order of ranks of --order; empty: known when all have met
  std::vector<allocation::JobSecret> secrets;  // keys of this job, best first
  Milliseconds join_timeout{0};
};

// Places in the network, for --order.
struct NetworkPlan {
  allocation::NetworkPlace own;
  std::string origin;                       // source of the own place; empty: not known
  int crossings = 0, crossings_before = 0;  // steps of a ring of all hosts to another switch
};

struct NodeProposal {
  allocation::Allocation allocation;
  RendezvousPlan rendezvous;
  NetworkPlan network;
  site::SitePlan site;
  std::string host;          // this host's name as the scheduler spells it, else gethostname()
  int local_world_size = 1;  // workers on this host, all its agents together
  Sourced<int> workers;      // workers of this agent
  bool for_tasks = false;    // the tasks that the job asked for decide; the coordinator may know more of them
  std::vector<OfferedWorker> offered;
  std::string rank_origin;           // source of the ranks; says so if they are assumed
  Sourced<bool> virtual_local_rank;  // every worker has LOCAL_RANK 0 and one device
  std::string device_variable;       // the one that leaves it that device
  // virtual_local_rank follows from a task that sees one GPU: undone at the start where those of its
  // local peers can be opened (plan/gpu_count.hpp).
  bool own_device = false;
  std::vector<facts::Gpu> gpus;  // HostFacts::gpus
  std::vector<VariableChange>
      changes;                  // the same for every worker; per-rank ones are added by worker_environment
  Sourced<std::string> run_id;  // TORCHELASTIC_RUN_ID
  Sourced<int> world_size;      // an assumption where the origin says "if": agents may differ
  Sourced<std::string> solo_address;  // MASTER_ADDR where this is the only agent
  std::optional<int> store_port;      // asked for by --master-port; else any free one
  std::string missing_gpus;           // VisibleDevices::missing
  std::vector<allocation::Notice> notices;
  std::string crowded;  // the one of these that the coordinator gives for all hosts; empty: none
  options::Options options;
};

inline constexpr int k_max_agents = 1 << 18;  // ddprun processes of one launch

}  // namespace ddprun::plan
