// Programs on their nodes, with the replicas of those whose ranks are independent (--independent).
// A replica is a job of one worker with a ddprun of its own: what ends one, or starts it again, reaches no
// other.
#pragma once

#include <string>
#include <vector>

#include "programs/program.hpp"

namespace ddprun::programs {

// A node of the job.
struct JobNode {
  std::string host;
  std::string address;
  int gpus = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobNode, host, address, gpus)

struct PlacedPrograms {
  std::vector<Program> programs;        // one for each replica
  std::vector<std::vector<int>> nodes;  // nodes of each
  std::vector<int> ranks;               // number of workers of each
};

// Places the programs (place()), and puts one replica for each worker in the place of each independent one,
// in the order of its nodes. A replica's --ready port is the program's plus its number on its node. Throws
// UsageError and Error that name the program or the host.
PlacedPrograms place_programs(const std::vector<Program>& programs, const std::vector<JobNode>& nodes);

// Returns "server", and "server 3" of a replica.
std::string name_of(const Program& program);

// Returns the table of DDPRUN_PROGRAMS before anything runs: one entry a name, with all replicas of it.
std::vector<Shown> make_table(const PlacedPrograms& placed, const std::vector<JobNode>& nodes);

// State of a program now.
struct ProgramState {
  std::string state;  // text as in Shown
  int attempt = 0;
  std::vector<std::string> ready;  // addresses of its ready nodes
};
// Brings the table up to date; `states` has one entry for each program and replica.
void update_table(std::vector<Shown>& table, const std::vector<Program>& programs,
                  const std::vector<ProgramState>& states);

}  // namespace ddprun::programs
