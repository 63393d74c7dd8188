#include "command_line/torchrun_habits.hpp"

namespace ddprun::command_line {

namespace {

constexpr const char* k_workers =
    "--nproc-per-node sets the number of workers on each node (default: one per visible GPU)";
constexpr const char* k_nodes = "--nnodes sets the number of nodes (default: those of the allocation)";
constexpr const char* k_hosts =
    "the scheduler names the hosts; without one, use --hosts or --hostfile, and ddprun starts itself there";
constexpr const char* k_rank = "did you mean --node-rank?";
constexpr const char* k_address = "did you mean --master-addr?";
constexpr const char* k_port = "did you mean --master-port?";
constexpr const char* k_local_rank = "leave it out: LOCAL_RANK is set in the environment of the workers";
constexpr const char* k_variables = "leave it out: workers inherit the environment, so export the variable";

struct Habit {
  std::string_view word;
  const char* advice;
};

// mpirun and mpiexec, srun, accelerate launch, deepspeed, horovodrun, torch.distributed.launch.
constexpr Habit k_habits[] = {
    {"-n", k_workers},
    {"-np", k_workers},
    {"--np", k_workers},
    {"--ntasks", k_workers},
    {"--ntasks-per-node", k_workers},
    {"--num-proc", k_workers},
    {"--num-processes", k_workers},
    {"--gpus-per-node", k_workers},
    {"--num-gpus", k_workers},
    {"--ppn", k_workers},
    {"-N", k_nodes},
    {"--nodes", k_nodes},
    {"--num-nodes", k_nodes},
    {"--num-machines", k_nodes},
    {"-H", k_hosts},
    {"--host", k_hosts},
    {"--machinefile", k_hosts},
    {"--machine-rank", k_rank},
    {"--main-process-ip", k_address},
    {"--main-process-port", k_port},
    {"--port", k_port},
    {"--local-rank", k_local_rank},
    {"-x", k_variables},
    {"-genv", k_variables},
};

}  // namespace

std::optional<std::string> advice_for_habit(std::string_view word) {
  for (const Habit& habit : k_habits) {
    if (habit.word == word) return habit.advice;
  }
  return std::nullopt;
}

}  // namespace ddprun::command_line
