#include "allocation/places/places.hpp"

#include <fmt/format.h>

#include <array>

#include "allocation/manual.hpp"
#include "allocation/places/place_rows.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

using Reader = std::optional<FoundPlace> (*)(const PlaceView&);

// Prefixes of their own first, then what several places share. SkyPilot and dstack run on others and see a
// part of them.
constexpr std::array<Reader, 10> k_readers{place_rows::read_variable_rows, place_rows::read_sagemaker,
                                           place_rows::read_vertex,        place_rows::read_azure_ml,
                                           place_rows::read_aws_batch,     place_rows::read_lepton,
                                           place_rows::read_volcano,       place_rows::read_numbered_nodes,
                                           place_rows::read_numbered_pods, place_rows::read_indexed_job};

PlaceView view_of(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  return {snapshot, options, Variables(snapshot.environment)};
}

std::optional<FoundPlace> read_first(const PlaceView& view) {
  for (const Reader read : k_readers) {
    if (auto place = read(view)) return place;
  }
  return std::nullopt;
}

// Returns the variable by which this process is a worker of torchrun or another launcher; empty: it is none.
// Azure ML sets LOCAL_RANK for the one process of a node, too.
std::string find_worker_mark(const Variables& variables, const std::string& place) {
  if (variables.has("TORCHELASTIC_RUN_ID")) return "TORCHELASTIC_RUN_ID";
  return variables.has("LOCAL_RANK") && place != "Azure ML" ? "LOCAL_RANK" : "";
}

void check_place_rank(const FoundPlace& place) {
  if (place.nodes.value < 2 || place.rank.value < place.nodes.value) return;
  throw Error(
      fmt::format("{}={} is out of range for {}={}", place.rank.origin, place.rank.value, place.nodes.origin,
                  place.nodes.value),
      "unset the variables if they are left from another job; to use this host alone, add --nnodes 1");
}

// Checks a NODE_RANK and a count that a script may export beside the place's.
void check_place_agrees(const FoundPlace& place, const Variables& variables) {
  const auto count = place_rows::find_node_count(variables);
  const auto rank = place_rows::read_index(variables, "NODE_RANK");
  if (place.nodes.value < 2 || !count || !rank || place.rank.origin.find(' ') != std::string::npos) return;
  const auto contradict = [&](const Sourced<int>& one, const Sourced<int>& other) {
    if (one.value == other.value) return;
    throw Error(fmt::format("{} is {}, but {} is {}", one.origin, one.value, other.origin, other.value),
                fmt::format("unset the one that is wrong, or give --nnodes, --node-rank and --master-addr"));
  };
  contradict(place.nodes, *count);
  contradict(place.rank, *rank);
}

PlaceOptions merge_flags(const FoundPlace& place, const facts::Snapshot& snapshot,
                         const PlaceOptions& options) {
  if (options.nodes && options.nodes->value != place.nodes.value) {
    throw UsageError(fmt::format("{} {}, but {} gives {}", options.nodes->origin, options.nodes->value,
                                 place.nodes.origin, count_of(place.nodes.value, "node")),
                     fmt::format("leave {} out; to describe another launch, give --nnodes, --node-rank and "
                                 "--master-addr",
                                 options.nodes->origin));
  }
  PlaceOptions merged = options;
  merged.likely_address.reset();
  if (!merged.nodes) merged.nodes = place.nodes;
  if (!merged.node_rank) merged.node_rank = place.rank;
  if (!merged.address) merged.address = place.address;
  if (!merged.address) merged.address = sourced(snapshot.host.name, "this host");
  if (!merged.port) merged.port = place.port;
  return merged;
}

// Names the hosts: by the place's list, else node 0 by its address and this host by its name.
void name_place_hosts(const FoundPlace& place, Allocation& allocation) {
  std::vector<Host>& hosts = allocation.hosts.value;
  const std::string own = hosts[static_cast<std::size_t>(allocation.task_rank.value)].name;
  for (Host& host : hosts) host.name.clear();
  if (place.hosts && place.hosts->value.size() == hosts.size()) {
    for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i].name = place.hosts->value[i];
    allocation.hosts.origin = place.hosts->origin;
    return;
  }
  if (place.address) hosts.front().name = place.address->value;
  hosts[static_cast<std::size_t>(allocation.task_rank.value)].name = own;
}

void describe_place(const FoundPlace& place, Allocation& allocation) {
  allocation.place = place.name;
  allocation.place_workers = place.workers;
  if (place.job) allocation.job_id = *place.job;
  if (place.restart_count) allocation.restart_count = *place.restart_count;
}

}  // namespace

std::optional<FoundPlace> find_place(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const PlaceView view = view_of(snapshot, options);
  auto place = read_first(view);
  if (!place || !find_worker_mark(view.variables, place->name.value).empty()) return std::nullopt;
  check_place_rank(*place);
  check_place_agrees(*place, view.variables);
  return place;
}

Allocation follow_place(const FoundPlace& place, const facts::Snapshot& snapshot,
                        const PlaceOptions& options) {
  if (place.nodes.value < 2 && !(options.nodes && options.nodes->value > 1)) {
    Allocation alone = make_alone(snapshot, options, place.nodes.origin);
    describe_place(place, alone);
    return alone;
  }
  const PlaceOptions merged = merge_flags(place, snapshot, options);
  Allocation allocation = parse_manual(snapshot, merged);
  describe_place(place, allocation);
  name_place_hosts(place, allocation);
  // The address of node 0 that the others reach shows only when they have come.
  if (!options.address && !place.address) allocation.first_address.reset();
  allocation.notices = place.notices;
  return allocation;
}

std::optional<Notice> find_unfollowed_place(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const PlaceView view = view_of(snapshot, options);
  const auto rank = view.variables.text("RANK");
  const auto size = view.variables.text("WORLD_SIZE");
  const std::string hint = "to join several hosts, give --nnodes, --node-rank and --master-addr";
  const std::string mark = find_worker_mark(view.variables, {});
  const std::string why =
      mark.empty() ? std::string() : fmt::format(" ({} marks a worker of another launcher)", mark);
  const bool counted =
      rank && size && view.variables.has("MASTER_ADDR") && parse_integer(size->value).value_or(1) > 1;
  if (counted) {
    return Notice{fmt::format("RANK={} and WORLD_SIZE={} of the environment are ignored{}: ddprun uses this "
                              "host only",
                              printable(rank->value, 20), printable(size->value, 20), why),
                  hint};
  }
  const auto place = mark.empty() ? std::nullopt : read_first(view);
  if (!place || place->nodes.value < 2) return std::nullopt;
  return Notice{fmt::format("{}={} of the environment is ignored{}: ddprun uses this host only",
                            place->nodes.origin, place->nodes.value, why),
                hint};
}

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
