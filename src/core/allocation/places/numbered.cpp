// The two dialects without a prefix: nodes by NODE_RANK, pods by RANK.
#include <fmt/format.h>

#include <array>

#include "allocation/manual.hpp"
#include "allocation/places/host_text.hpp"
#include "allocation/places/place_rows.hpp"
#include "base/text.hpp"

namespace ddprun::allocation::place_rows {

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

}  // namespace ddprun::allocation::place_rows
