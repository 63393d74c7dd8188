// A launcher pod of Kubeflow's MPI Operator: it is no node, and a file names those that are, which run sshd
// (kubeflow/mpi-operator, pkg/controller/mpi_job_controller.go).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/sourced.hpp"
#include "facts/snapshot.hpp"

namespace ddprun::allocation {

// The hosts of the file that OMPI_MCA_orte_default_hostfile, I_MPI_HYDRA_HOST_FILE or HYDRA_HOST_FILE names;
// nothing elsewhere than in such a pod. Throws UsageError for a file that names no host.
std::optional<Sourced<std::vector<std::string>>> find_mpi_operator_hosts(const facts::Snapshot& snapshot);

}  // namespace ddprun::allocation
