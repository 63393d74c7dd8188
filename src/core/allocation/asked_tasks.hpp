// Tasks that a job's script asked for on each host: #SBATCH --ntasks, mpiprocs of a PBS chunk.
//
// A step and an MPI launcher put their own numbers in place of the job's, so the agents that do not see these
// are told: by their front end (DDPRUN_TASKS), or by the coordinator.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "allocation/allocation.hpp"

namespace ddprun::allocation {

// Returns "2*n[1-2] 1*n3", which parse_asked_tasks reads back.
std::string write_asked_tasks(const std::vector<Host>& hosts);
// Throws Error that names `origin` for a malformed text and for more than k_max_hosts hosts.
std::vector<Host> parse_asked_tasks(std::string_view text, const std::string& origin);

// Returns the tasks on the host; 0: not known.
int count_asked_tasks(const std::vector<Host>& asked, std::string_view host);
// Reports whether a host has more than one: a single one each is what most jobs have without asking.
bool asks_for_several(const Allocation& allocation);
// Returns the tasks of each of Allocation::hosts, in their order; empty where one is not known.
std::vector<int> asked_tasks_of_hosts(const Allocation& allocation);

}  // namespace ddprun::allocation
