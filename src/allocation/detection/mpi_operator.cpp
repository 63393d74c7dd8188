#include "allocation/detection/mpi_operator.hpp"

#include "allocation/detection/started.hpp"
#include "allocation/variables.hpp"

namespace ddprun::allocation {

std::optional<Sourced<std::vector<std::string>>> find_mpi_operator_hosts(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  const auto role = variables.text("K_MPI_JOB_ROLE");
  if (!role || role->value != "launcher") return std::nullopt;
  for (const char* name : {"OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"}) {
    const auto path = variables.text(name);
    const auto file = path ? snapshot.files.find(path->value) : snapshot.files.end();
    if (file == snapshot.files.end()) continue;
    return sourced(parse_hostfile(file->second, path->value).hosts, name);
  }
  return std::nullopt;
}

}  // namespace ddprun::allocation
