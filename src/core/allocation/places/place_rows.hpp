// Readers of the places, one function each, and of hosts as places write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/places/places.hpp"
#include "base/sourced.hpp"

namespace ddprun::allocation::place_rows {

// Readers of the places, one function each.
// Each returns nullopt if its mark is not set, and throws Error if the mark is set and the rest contradicts
// it or is missing.

// Reads SkyPilot, dstack, MLP, Arnold, ModelArts, Beaker, LeaderWorkerSet: variables alone, the rows of
// variable_row.cpp.
std::optional<FoundPlace> read_variable_rows(const PlaceView& view);
// Reads AWS Batch, multi-node parallel jobs (docs.aws.amazon.com/batch/latest/userguide/mnp-env-vars.html).
std::optional<FoundPlace> read_aws_batch(const PlaceView& view);
// Reads Azure ML (learn.microsoft.com/azure/machine-learning/how-to-train-distributed-gpu).
std::optional<FoundPlace> read_azure_ml(const PlaceView& view);
// Reads SageMaker training: resourceconfig.json, else SM_HOSTS (sagemaker-training-toolkit, environment.py).
std::optional<FoundPlace> read_sagemaker(const PlaceView& view);
// Reads Vertex AI custom jobs: CLUSTER_SPEC (cloud.google.com/vertex-ai/docs/training/distributed-training).
std::optional<FoundPlace> read_vertex(const PlaceView& view);
// Reads DGX Cloud Lepton: names of hosts follow from the job's (leptonai/scripts, lepton_env_to_pytorch.sh).
std::optional<FoundPlace> read_lepton(const PlaceView& view);
// Reads Volcano's env and svc plug-ins (volcano-sh/volcano, pkg/controllers/job/plugins).
std::optional<FoundPlace> read_volcano(const PlaceView& view);
// Reads NODE_RANK, a count under one of several names, and MASTER_ADDR: Runpod, Databricks, xpk and others.
std::optional<FoundPlace> read_numbered_nodes(const PlaceView& view);
// Reads RANK, WORLD_SIZE and MASTER_ADDR, which without LOCAL_RANK and PET_ count pods: Kubeflow up to 1.6,
// PAI DLC, AIHC, Volcano's pytorch plug-in (dlrover, dlrover/python/common/constants.py says so in its
// comments).
std::optional<FoundPlace> read_numbered_pods(const PlaceView& view);
// Reads an Indexed Job or JobSet of Kubernetes: JOB_COMPLETION_INDEX and the pod's host name.
std::optional<FoundPlace> read_indexed_job(const PlaceView& view);

// Returns the count of nodes by the names that several places and users have for it; above 0.
std::optional<Sourced<int>> find_node_count(const Variables& variables);

// Makes a place of that name, as `mark` shows.
FoundPlace make_place(const char* name, const std::string& mark, const Sourced<int>& nodes);
// Reads a count or index, which limits its value; nullopt if unset. Throws Error as Variables::number does.
std::optional<Sourced<int>> read_count(const Variables& variables, const std::string& name);
std::optional<Sourced<int>> read_index(const Variables& variables, const std::string& name);
// Reads the workers of a node: nullopt for 0, and for text that is no whole number ("0.5" GPUs, "auto").
std::optional<Sourced<int>> read_workers(const Variables& variables, const std::string& name);
// Reads a port, the first of a list with commas; nullopt for text that is none ("tcp://..." of Kubernetes'
// services).
std::optional<Sourced<int>> read_port(const Variables& variables, const std::string& name);
// Throws Error that `mark` is set, but `missing` is not.
[[noreturn]] void refuse_half_set(const std::string& mark, const std::string& missing);

}  // namespace ddprun::allocation::place_rows

namespace ddprun::allocation {

// Hosts as places write them: "h", "h:port", "[v6]:port", "v6".

struct HostText {
  std::string host;  // a name or a numeric address, without brackets
  std::optional<int> port;
  friend bool operator==(const HostText&, const HostText&) = default;
};

// Returns nullopt for a text that is none of these, or has a port outside 1 to 65535.
std::optional<HostText> parse_host_text(std::string_view text);

// Parses likewise; throws Error that names `origin`.
HostText read_host_text(std::string_view text, const std::string& origin);

// Reads the hosts of a list, without ports; empty entries are left out. Throws Error that names the variable.
Sourced<std::vector<std::string>> read_host_list(const Sourced<std::string>& list, char separator);

}  // namespace ddprun::allocation
