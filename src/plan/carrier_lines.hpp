// The command lines of each carrier, and what its agents' environment must not have. Private to carrier.cpp.
#pragma once

#include "ddprun/plan/carrier.hpp"

namespace ddprun {

// Which program is behind the name mpiexec.
enum class Mpiexec { unknown, hydra, open_mpi, pals };
Mpiexec tell_mpiexec(const ProgramFacts& program);
// Whether it starts processes on the nodes of a PBS job by itself.
bool is_of_openpbs(const ProgramFacts& program);  // passed over
bool knows_pbs(const ProgramFacts& program);

// This program's file.
const std::string& own_file(const Snapshot& snapshot);
// The words, this program's file and its arguments.
std::vector<std::string> with_arguments(std::vector<std::string> words, const Snapshot& snapshot);
void set_variable(CarrierPlan& plan, const char* name, std::string value, std::string origin);

// Each fills in commands, task and changes of a plan that has its allocation, hosts and carrier.
void use_srun(CarrierPlan& plan, const Options& options, const Snapshot& snapshot);
void use_mpiexec(CarrierPlan& plan, const Options& options, const Snapshot& snapshot);
void use_flux(CarrierPlan& plan, const Options& options, const Snapshot& snapshot);
void use_blaunch(CarrierPlan& plan, const Options& options, const Snapshot& snapshot);
void use_pbsdsh(CarrierPlan& plan, const Options& options, const Snapshot& snapshot);
void use_pbs_tmrsh(CarrierPlan& plan, const Options& options, const Snapshot& snapshot);
void use_ssh(CarrierPlan& plan, const Options& options, const Snapshot& snapshot);

}  // namespace ddprun
