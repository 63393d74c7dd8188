#include "allocation/places/preset_variables.hpp"

#include "allocation/variables.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

bool is_port_of_hook(const facts::Environment& environment) {
  const Variables variables(environment);
  const auto job = variables.text("SLURM_JOB_ID", "SLURM_JOBID");
  const auto port = variables.text("MASTER_PORT");
  if (!variables.has("PYTORCH_VERSION") || !job || !port) return false;
  const auto number = parse_integer(job->value);
  return number && *number > 0 && parse_integer(port->value) == 61000 + *number % 4536;
}

std::optional<std::string> find_threads_preset(const facts::Environment& environment) {
  const Variables variables(environment);
  const auto threads = variables.text("OMP_NUM_THREADS");
  if (!threads || threads->value != "1") return std::nullopt;
  if (is_port_of_hook(environment)) return "the container's hook";
  if (variables.has("SKYPILOT_NODE_RANK") && variables.has("RAY_JOB_ID")) return "SkyPilot";
  return std::nullopt;
}

}  // namespace ddprun::allocation
