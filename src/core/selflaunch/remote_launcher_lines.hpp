// Command lines of each remote launcher, and variables that its agents must not have.
// Private to selflaunch.
#pragma once

#include "selflaunch/remote_launcher.hpp"

namespace ddprun::selflaunch {

// Program behind the name mpiexec.
enum class Mpiexec { unknown, hydra, open_mpi, pals };
Mpiexec tell_mpiexec(const facts::ProgramFacts& program);
// Report whether it starts processes on the nodes of a PBS job by itself.
bool is_of_openpbs(const facts::ProgramFacts& program);  // passed over
bool knows_pbs(const facts::ProgramFacts& program);

// Returns this program's file.
const std::string& own_file(const facts::Snapshot& snapshot);
// Returns the words, this program's file and its arguments.
std::vector<std::string> with_arguments(std::vector<std::string> words, const facts::Snapshot& snapshot);
// Returns the words and those of --launcher-args. They come after ddprun's, as the last of an option given
// twice counts; ssh, which takes the first, has them in front.
std::vector<std::string> with_launcher_args(const SelfLaunchPlan& plan, std::vector<std::string> words);
void set_variable(SelfLaunchPlan& plan, const char* name, std::string value, std::string origin);

// Fill in commands, task and changes of a plan that has its allocation, hosts and remote launcher.
void use_srun(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);
void use_mpiexec(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);
void use_flux(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);
void use_blaunch(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);
void use_pbsdsh(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);
void use_pbs_tmrsh(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);
void use_qrsh(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);
void use_oarsh(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);
void use_pjrsh(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);
void use_ssh(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot);

}  // namespace ddprun::selflaunch
