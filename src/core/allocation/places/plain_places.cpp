#include <fmt/format.h>

#include <array>

#include "allocation/manual.hpp"
#include "allocation/places/place_rows.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation::place_rows {

// The two dialects without a prefix: nodes by NODE_RANK, pods by RANK.

namespace {

template <class Names>
std::optional<Sourced<int>> first_workers(const Variables& variables, const Names& names) {
  for (const char* name : names) {
    if (auto workers = read_workers(variables, name)) return workers;
  }
  return std::nullopt;
}

// Returns the host of node 0. xpk gives JAX's coordinator, on the same host; its port is JAX's.
std::optional<Sourced<std::string>> find_node_0(const Variables& variables) {
  const auto text = variables.text("MASTER_ADDR", "JAX_COORDINATOR_ADDRESS");
  if (!text) return std::nullopt;
  return sourced(read_host_text(text->value, text->origin).host, text->origin);
}

// Returns "job" for "job-master-0.job", by which the pods of one job are named.
std::string job_of_master(const std::string& address) {
  const std::string name = address.substr(0, address.find('.'));
  constexpr std::string_view k_end = "-master-0";
  return name.ends_with(k_end) ? name.substr(0, name.size() - k_end.size()) : name;
}

}  // namespace

std::optional<FoundPlace> read_numbered_nodes(const PlaceView& view) {
  const auto count = find_node_count(view.variables);
  if (!count || !view.variables.has("NODE_RANK")) return std::nullopt;
  FoundPlace place = make_place("numbered nodes", "NODE_RANK", *count);
  place.workers = first_workers(
      view.variables,
      std::to_array({"NPROC_PER_NODE", "NUM_TRAINERS", "LOCAL_WORLD_SIZE", "NGPUS", "GPUS_PER_NODE"}));
  if (count->value < 2) return place;
  place.rank = *read_index(view.variables, "NODE_RANK");
  place.address = find_node_0(view.variables);
  place.port = read_port(view.variables, "MASTER_PORT");
  const bool told = place.address || view.options.address;
  if (!told) refuse_half_set(fmt::format("NODE_RANK={}", place.rank.value), "MASTER_ADDR");
  return place;
}

std::optional<FoundPlace> read_numbered_pods(const PlaceView& view) {
  const Variables& variables = view.variables;
  const auto size = variables.text("WORLD_SIZE");
  const auto address = variables.text("MASTER_ADDR");
  const bool several = size && parse_integer(size->value).value_or(0) > 1;
  // Numbers that a user exported for one host, and Kubeflow's own of 1.7 and later, mean something else.
  if (!several || !address || !variables.has("RANK") || variables.has("PET_NNODES") ||
      is_loopback_name(address->value))
    return std::nullopt;
  FoundPlace place = make_place("numbered pods", "RANK", *read_count(variables, "WORLD_SIZE"));
  place.rank = *read_index(variables, "RANK");
  const HostText host = read_host_text(address->value, address->origin);
  place.address = sourced(host.host, address->origin);
  place.port = read_port(variables, "MASTER_PORT");
  place.workers = first_workers(variables, std::to_array({"NPROC_PER_NODE", "RUNAI_NUM_OF_GPUS"}));
  place.job = sourced(job_of_master(host.host), address->origin);
  place.notices.push_back(
      {fmt::format("RANK={} and WORLD_SIZE={} of the environment count nodes here, not workers: ddprun waits "
                   "for {}",
                   place.rank.value, place.nodes.value, count_of(place.nodes.value, "node")),
       "to use this host alone, add --nnodes 1"});
  return place;
}

// The places whose variables say all of it.

namespace {

// Names of variables; the unused ones are empty.
struct VariableRow {
  const char* name;
  const char* mark;
  const char* count;  // empty: as many as `hosts` lists
  const char* index;
  const char* hosts;  // in the order of ranks
  char separator;
  const char* address;  // empty: the first of `hosts`
  const char* port;     // the first of a list counts
  const char* workers;
  const char* job;
  const char* starts;  // counted from 1
  const char* role;    // only its WORKERs are nodes
};

// SkyPilot: docs.skypilot.co, environment variables. dstack: dstack.ai/docs/reference/env. MLP:
// volcengine.com/docs/6459/75329. Arnold: public scripts. ModelArts: support.huaweicloud.com,
// develop-modelarts-0104. Beaker: public scripts of its authors. LeaderWorkerSet: kubernetes-sigs/lws,
// pkg/utils/pod/pod_utils.go. HTCondor's parallel universe: src/condor_starter.V6.1/parallel_proc.cpp; it
// tells no process where the others are.
constexpr std::array<VariableRow, 8> k_variable_rows{{
    {"SkyPilot", "SKYPILOT_NODE_IPS", "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS", '\n',
     "", "", "SKYPILOT_NUM_GPUS_PER_NODE", "SKYPILOT_TASK_ID", "", ""},
    {"dstack", "DSTACK_NODES_NUM", "DSTACK_NODES_NUM", "DSTACK_NODE_RANK", "DSTACK_NODES_IPS", '\n',
     "DSTACK_MASTER_NODE_IP", "", "DSTACK_GPUS_PER_NODE", "DSTACK_RUN_ID", "", ""},
    {"MLP", "MLP_WORKER_NUM", "MLP_WORKER_NUM", "MLP_ROLE_INDEX", "MLP_WORKER_ALL_HOSTS", ',',
     "MLP_WORKER_0_HOST", "MLP_WORKER_0_PORT", "MLP_WORKER_GPU", "MLP_TASK_ID", "", "MLP_ROLE"},
    {"Arnold", "ARNOLD_WORKER_NUM", "ARNOLD_WORKER_NUM", "ARNOLD_ID", "ARNOLD_WORKER_HOSTS", ',',
     "ARNOLD_WORKER_0_HOST", "ARNOLD_WORKER_0_PORT", "ARNOLD_WORKER_GPU", "ARNOLD_TRIAL_ID", "", ""},
    {"ModelArts", "MA_NUM_HOSTS", "MA_NUM_HOSTS", "VC_TASK_INDEX", "VC_WORKER_HOSTS", ',', "", "",
     "MA_NUM_GPUS", "MA_VJ_NAME", "MA_PROC_START_CNT", ""},
    {"Beaker", "BEAKER_REPLICA_COUNT", "BEAKER_REPLICA_COUNT", "BEAKER_REPLICA_RANK", "", ',',
     "BEAKER_LEADER_REPLICA_HOSTNAME", "", "", "BEAKER_WORKLOAD_ID", "", ""},
    {"HTCondor", "_CONDOR_NPROCS", "_CONDOR_NPROCS", "_CONDOR_PROCNO", "", ',', "MASTER_ADDR", "MASTER_PORT",
     "", "", "", ""},
    {"LeaderWorkerSet", "LWS_GROUP_SIZE", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "", ',', "LWS_LEADER_ADDRESS",
     "", "", "LWS_LEADER_ADDRESS", "", ""},
}};

void check_role(const VariableRow& row, const Variables& variables) {
  const auto role = variables.text(row.role);
  if (!role || to_lower(role->value) == "worker") return;
  throw Error(fmt::format("{}={}: ddprun starts workers only on tasks of the role WORKER", row.role,
                          printable(role->value, 40)),
              "start ddprun in the WORKER tasks, or use this host alone with --nnodes 1");
}

void read_row_hosts(const VariableRow& row, const Variables& variables, FoundPlace& place) {
  const auto list = variables.text(row.hosts);
  if (!list) return;
  auto hosts = read_host_list(*list, row.separator);
  const auto count = static_cast<std::size_t>(place.nodes.value);
  if (place.nodes.known() && hosts.value.size() > count) hosts.value.resize(count);
  if (!place.nodes.known()) place.nodes = sourced(static_cast<int>(hosts.value.size()), list->origin);
  // A list with empty entries shows no position.
  if (hosts.value.size() == static_cast<std::size_t>(place.nodes.value) && !hosts.value.empty())
    place.hosts = hosts;
}

void read_row_address(const VariableRow& row, const Variables& variables, FoundPlace& place) {
  const auto address = variables.text(row.address);
  if (address) {
    const HostText host = read_host_text(address->value, address->origin);
    place.address = sourced(host.host, address->origin);
  } else if (place.hosts) {
    place.address = sourced(place.hosts->value.front(), place.hosts->origin);
  }
  place.port = read_port(variables, row.port);
}

std::optional<FoundPlace> read_row(const VariableRow& row, const Variables& variables) {
  const auto mark = variables.text(row.mark);
  if (!mark) return std::nullopt;
  FoundPlace place;
  place.name = sourced(std::string(row.name), row.mark);
  if (const auto count = read_count(variables, row.count)) place.nodes = *count;
  read_row_hosts(row, variables, place);
  place.workers = read_workers(variables, row.workers);
  place.job = variables.text(row.job);
  if (place.nodes.value < 2) return place;  // an index says nothing then
  check_role(row, variables);
  const auto index = read_index(variables, row.index);
  if (!index) refuse_half_set(fmt::format("{}={}", place.nodes.origin, place.nodes.value), row.index);
  place.rank = *index;
  read_row_address(row, variables, place);
  if (!place.address) {
    refuse_half_set(fmt::format("{}={}", place.nodes.origin, place.nodes.value),
                    *row.address != '\0' ? row.address : row.hosts);
  }
  if (const auto starts = read_count(variables, row.starts))
    place.restart_count = sourced(starts->value - 1, starts->origin);
  return place;
}

}  // namespace

std::optional<FoundPlace> read_variable_rows(const PlaceView& view) {
  for (const VariableRow& row : k_variable_rows) {
    if (auto place = read_row(row, view.variables)) return place;
  }
  return std::nullopt;
}

}  // namespace ddprun::allocation::place_rows
