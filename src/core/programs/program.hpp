// Several programs of one job, as values: what each is, which nodes it has, and what it gets of a node.
//
//   ddprun train.py : --name server --nodes 3 serve.py : --name data --with train loader.py
//
// A lone ":" stands between them, or "::", which srun and mpiexec leave to us: ":" they read themselves. Each
// has its own ranks, store and attempts.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "facts/topology.hpp"
#include "options/program_options.hpp"

namespace ddprun::programs {

inline constexpr std::size_t k_most_programs = 64;

struct Program {
  std::string name;
  std::vector<std::string> words;  // ddprun's command line for it: options, script and its arguments
  int nodes = 0;                   // number that it takes, spares among them; 0: not said
  int least = 0;                   // number without which it cannot run; at most `nodes`
  std::string node_list;           // --nodes
  std::string with;
  std::vector<std::string> after;
  std::string ready;
  int ready_timeout = 0;  // milliseconds
  options::OnExit on_exit = options::OnExit::fail;
  int workers = 0;           // on each node; 0: one for each GPU
  int gpus = -1;             // for each worker; -1: not said
  int warned = 0;            // signal that it gets before the job's end (--signal-before-end); 0: none
  bool independent = false;  // its workers are replicas, each for itself (replicas.hpp)
  int replica = -1;          // number of this replica among all; -1: it is a whole program
  int replicas = 0;
  friend bool operator==(const Program&, const Program&) = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Program, name, words, nodes, least, node_list, with, after, ready,
                                   ready_timeout, on_exit, workers, gpus, warned, independent, replica,
                                   replicas)

// Splits the words of a command line at each lone ":" or "::" before a "--"; one piece where there is none.
// Throws UsageError for an empty piece, or more than k_most_programs.
std::vector<std::vector<std::string>> split_programs(const std::vector<std::string>& arguments);
// Joins them by "::", for a remote launcher.
std::vector<std::string> join_programs(const std::vector<std::vector<std::string>>& pieces);

// Returns the least number of nodes on which a job of these programs can run, where some do without spares or
// nodes beyond their least and all say how many they take; else 0.
int least_nodes(const std::vector<Program>& programs);

// Gives programs without a name that of their script, each name once, and checks that those named by --with
// and
// --after exist and do not wait for each other. Throws UsageError that names the program.
void settle_names(std::vector<Program>& programs, const std::vector<std::string>& scripts);

// Nodes of each program, as indices into `hosts`, in the order of the job. Programs share a node by --with,
// where --nodes says so, and where the job has only one. With too few nodes the later programs do without
// their spares and nodes beyond the least first. Throws UsageError that names the program.
std::vector<std::vector<int>> place(const std::vector<Program>& programs,
                                    const std::vector<std::string>& hosts);

// Part of a node that a program gets of it where it shares it with others.
struct Share {
  std::vector<int> cpus;  // ascending; empty: all
  std::vector<int> gpus;  // positions among the visible ones
  bool all_gpus = true;   // none is taken away
  int workers = 1;        // number of workers that follows
  friend bool operator==(const Share&, const Share&) = default;
};

// Shares of the programs of one node, in their order. Cores are given in proportion to the workers, with all
// their threads, and none twice where there are enough. GPUs: as many as the workers of a program need; a
// program without
// --nproc-per-node takes the rest; one that is there by --with none, unless --gpus-per-worker says how many.
// Throws Error where they ask for more GPUs than the node has.
std::vector<Share> share_node(const std::vector<const Program*>& programs, const std::string& host,
                              const std::vector<facts::Core>& cores, int gpus);

// Does the same for the programs that `nodes`, as place() has found them, put on this node; by their numbers.
std::map<std::size_t, Share> share_node(const std::vector<Program>& programs,
                                        const std::vector<std::vector<int>>& nodes, int node,
                                        const std::string& host, const std::vector<facts::Core>& cores,
                                        int gpus);

// One replica for other programs.
struct ShownReplica {
  int number = 0;
  std::string address;
  int port = 0;  // port of --ready; 0: none
  std::string state;
  int attempt = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShownReplica, number, address, port, state, attempt)

// One program for the others, in DDPRUN_PROGRAMS.
struct Shown {
  std::string name;
  std::vector<std::string> hosts;
  std::vector<std::string> addresses;
  std::vector<std::string> ready;  // addresses of those that are ready now
  int ranks = 0;                   // number in its first attempt
  std::string state;               // "waiting", "running", "ready", "ended"
  int attempt = 0;                 // number of times that all of it, or a replica, was started again
  std::vector<ShownReplica> replicas;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Shown, name, hosts, addresses, ready, ranks, state, attempt, replicas)

// Name of a program in a variable: "SERVER_A" of "server-a".
std::string variable_part(const std::string& name);

}  // namespace ddprun::programs
