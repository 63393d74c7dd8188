#include "allocation/detection/hidden_job.hpp"

#include <fmt/format.h>

#include <array>

#include "allocation/node_file.hpp"
#include "allocation/schedulers/schedulers.hpp"
#include "allocation/schedulers/slurm_place.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

struct ContainerRow {
  const char* variable;  // variable that it sets inside
  const char* hint;
};

// apptainer/apptainer, internal/pkg/util/env; podman sets container=podman, as does NERSC's podman-hpc.
constexpr std::array<ContainerRow, 4> k_containers{{
    {"APPTAINER_CONTAINER",
     "leave out --cleanenv, --containall and --no-env, or start ddprun outside the container: srun ddprun "
     "--container 'apptainer exec IMAGE' ..."},
    {"SINGULARITY_CONTAINER",
     "leave out --cleanenv and --containall, or start ddprun outside the container: srun ddprun --container "
     "'singularity exec IMAGE' ..."},
    {"container",
     "pass the variables to the container: podman-hpc run --mpi, or podman run --env 'SLURM_*'; or start "
     "ddprun outside the container: srun ddprun --container 'podman run IMAGE' ..."},
    {"CH_RUNNING", "leave out --unset-env"},
}};

const ContainerRow* find_container(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  for (const ContainerRow& row : k_containers) {
    if (variables.has(row.variable)) return &row;
  }
  return nullptr;
}

std::optional<SlurmPlace> find_hidden(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  if (variables.text("SLURM_JOB_ID", "SLURM_JOBID")) return std::nullopt;
  return find_slurm_place(snapshot.host);
}

std::string describe_hidden(const SlurmPlace& place, const ContainerRow& container) {
  return fmt::format(
      "this process runs in job {} of Slurm ({}), but SLURM_JOB_ID is not set in its container "
      "({} is set)",
      place.job, place.origin, container.variable);
}

}  // namespace

void check_no_hidden_step(const facts::Snapshot& snapshot) {
  const auto place = find_hidden(snapshot);
  const ContainerRow* const container = find_container(snapshot);
  if (!place || place->context != SlurmContext::step || container == nullptr) return;
  throw Error(describe_hidden(*place, *container),
              fmt::format("{}; to use this host alone, add --standalone", container->hint));
}

std::optional<Notice> find_hidden_job(const facts::Snapshot& snapshot) {
  const auto place = find_hidden(snapshot);
  const ContainerRow* const container = find_container(snapshot);
  if (!place || container == nullptr || place->context == SlurmContext::step) return std::nullopt;
  return Notice{describe_hidden(*place, *container) + ": ddprun uses this host only",
                fmt::format("{}; add --standalone if only one host is intended", container->hint)};
}

std::optional<Notice> find_nqsv_job(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  const auto id = variables.text("PBS_JOBID");
  const auto path = variables.text("PBS_NODEFILE");
  const auto file = path ? snapshot.files.find(path->value) : snapshot.files.end();
  if (!id || !is_nqsv_job(snapshot) || file == snapshot.files.end()) return std::nullopt;
  const std::size_t hosts = parse_node_file(file->second, path->value).hosts.size();
  if (hosts < 2) return std::nullopt;
  return Notice{fmt::format("NQSV job {} has {}, but ddprun uses this one only", printable(id->value, 80),
                            count_of(static_cast<std::int64_t>(hosts), "host")),
                "to start ddprun on all of them through ssh: --hostfile \"$PBS_NODEFILE\""};
}

}  // namespace ddprun::allocation
