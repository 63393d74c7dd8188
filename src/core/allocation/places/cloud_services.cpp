#include <fmt/format.h>
#include <algorithm>

#include "allocation/manual.hpp"
#include "allocation/places/place_rows.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/json_reader.hpp"

namespace ddprun::allocation::place_rows {

namespace {

constexpr const char* k_main_address = "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS";
constexpr const char* k_node_index = "AWS_BATCH_JOB_NODE_INDEX";

// Counts from the main node, which is node 0 here, whatever its index is: the job ends with it.
Sourced<int> count_from_main(const Sourced<int>& index, int main, int nodes) {
  if (main == 0) return index;
  return sourced((index.value - main + nodes) % nodes,
                 fmt::format("{}, counted from the main node", index.origin));
}

}  // namespace

std::optional<FoundPlace> read_aws_batch(const PlaceView& view) {
  const auto count = read_count(view.variables, "AWS_BATCH_JOB_NUM_NODES");
  if (!count) return std::nullopt;
  FoundPlace place = make_place("AWS Batch", count->origin, *count);
  // "uuid#N" on the nodes of one job.
  if (auto job = view.variables.text("AWS_BATCH_JOB_ID"))
    place.job = sourced(job->value.substr(0, job->value.find('#')), job->origin);
  if (count->value < 2) return place;
  const auto index = read_index(view.variables, k_node_index);
  if (!index) refuse_half_set(count->origin, k_node_index);
  const auto main = read_index(view.variables, "AWS_BATCH_JOB_MAIN_NODE_INDEX");
  const bool in_range = index->value < count->value && main && main->value < count->value;
  place.rank = in_range ? count_from_main(*index, main->value, count->value) : *index;
  if (const auto address = view.variables.text(k_main_address)) {
    place.address = sourced(read_host_text(address->value, address->origin).host, address->origin);
  } else if (place.rank.value != 0) {
    refuse_half_set(fmt::format("{}={}", index->origin, index->value), k_main_address);
  }
  const auto attempt = view.variables.count("AWS_BATCH_JOB_ATTEMPT", 1);
  if (attempt) place.restart_count = sourced(attempt->value - 1, attempt->origin);
  return place;
}

namespace {

constexpr int k_azure_port = 6105;

// Refuses process_count_per_instance above 1: Azure ML has started the processes that ddprun would start.
void check_one_a_node(const Variables& variables, const Sourced<int>& nodes) {
  const auto local = variables.text("LOCAL_RANK");
  const auto size = variables.text("WORLD_SIZE");
  const auto processes = size ? parse_integer(size->value) : std::nullopt;
  if (!local || !processes || *processes == nodes.value) return;
  const bool even = *processes % nodes.value == 0;
  throw Error(fmt::format("Azure ML has started {} processes on {} already (LOCAL_RANK={}, WORLD_SIZE={})",
                          *processes, count_of(nodes.value, "node"), printable(local->value, 20), *processes),
              fmt::format("set process_count_per_instance to 1{}: ddprun starts the workers of a node",
                          even ? fmt::format(" instead of {}", *processes / nodes.value) : ""));
}

std::optional<Sourced<HostText>> find_azure_address(const Variables& variables) {
  for (const char* name : {"MASTER_ADDR", "AZ_BATCHAI_JOB_MASTER_NODE_IP", "AZ_BATCH_MASTER_NODE",
                           "AZ_BATCHAI_MPI_MASTER_NODE", "MASTER_IP"}) {
    const auto text = variables.text(name);
    if (!text || is_loopback_name(text->value)) continue;
    return sourced(read_host_text(text->value, name), name);
  }
  return std::nullopt;
}

}  // namespace

std::optional<FoundPlace> read_azure_ml(const PlaceView& view) {
  const auto count = read_count(view.variables, "AZUREML_NODE_COUNT");
  if (!count) return std::nullopt;
  check_one_a_node(view.variables, *count);
  FoundPlace place = make_place("Azure ML", count->origin, *count);
  place.job = view.variables.text("AZUREML_RUN_ID");
  if (count->value < 2) return place;
  auto index = read_index(view.variables, "NODE_RANK");
  if (!index) index = read_index(view.variables, "AZUREML_CR_NODE_RANK");
  const std::string mark = fmt::format("{}={}", count->origin, count->value);
  if (!index) refuse_half_set(mark, "NODE_RANK");
  place.rank = *index;
  const auto address = find_azure_address(view.variables);
  if (!address) refuse_half_set(mark, "MASTER_ADDR");
  place.address = sourced(address->value.host, address->origin);
  place.port = read_port(view.variables, "MASTER_PORT").value_or(by_default(k_azure_port));
  return place;
}

namespace {

constexpr int k_lepton_port = 29400;

}  // namespace

std::optional<FoundPlace> read_lepton(const PlaceView& view) {
  const auto job = view.variables.text("LEPTON_JOB_NAME");
  const auto count = read_count(view.variables, "LEPTON_JOB_TOTAL_WORKERS");
  if (!job || !count) return std::nullopt;
  FoundPlace place = make_place("Lepton", count->origin, *count);
  place.job = job;
  place.workers = read_workers(view.variables, "LEPTON_RESOURCE_ACCELERATOR_NUM");
  if (count->value < 2) return place;
  const auto index = read_index(view.variables, "LEPTON_JOB_WORKER_INDEX");
  if (!index) refuse_half_set(count->origin, "LEPTON_JOB_WORKER_INDEX");
  place.rank = *index;
  const auto prefix = view.variables.text("LEPTON_JOB_SERVICE_PREFIX").value_or(*job);
  const auto subdomain =
      view.variables.text("LEPTON_SUBDOMAIN").value_or(sourced(job->value + "-job-svc", job->origin));
  const std::string first = fmt::format("{}-0.{}", prefix.value, subdomain.value);
  place.address = sourced(read_host_text(first, prefix.origin).host, prefix.origin);
  place.port = by_default(k_lepton_port);
  return place;
}

namespace {

constexpr const char* k_resource_config = "/opt/ml/input/config/resourceconfig.json";
constexpr int k_sagemaker_port = 7777;
constexpr const char* k_sagemaker_hint =
    "give --nnodes, --node-rank and --master-addr; to use this host alone, add --nnodes 1";

struct ClusterHosts {
  Sourced<std::vector<std::string>> hosts;
  Sourced<std::string> own;
};

std::vector<std::string> read_names(const facts::Json& list, const facts::JsonSource& source) {
  if (!list.is_array()) source.refuse("its hosts are not a list");
  std::vector<std::string> names;
  for (const facts::Json& each : list) {
    if (!each.is_string()) source.refuse("its list of hosts has something other than names");
    names.push_back(read_host_text(each.get<std::string>(), source.name).host);
  }
  return names;
}

std::optional<ClusterHosts> read_resource_config(const facts::Snapshot& snapshot) {
  const auto file = snapshot.files.find(k_resource_config);
  if (file == snapshot.files.end()) return std::nullopt;
  const facts::JsonSource source{k_resource_config, k_sagemaker_hint};
  const facts::Json config = facts::parse_strictly(file->second, source);
  if (!config.is_object() || !config.contains("hosts") || !config.contains("current_host"))
    source.refuse("it has no hosts and current_host");
  if (!config["current_host"].is_string()) source.refuse("its current_host is not a name");
  return ClusterHosts{sourced(read_names(config["hosts"], source), k_resource_config),
                      sourced(config["current_host"].get<std::string>(), k_resource_config)};
}

std::optional<ClusterHosts> read_sm_variables(const Variables& variables) {
  const auto list = variables.text("SM_HOSTS");
  const auto own = variables.text("SM_CURRENT_HOST");
  if (!list || !own) return std::nullopt;
  const facts::JsonSource source{"SM_HOSTS", k_sagemaker_hint};
  return ClusterHosts{sourced(read_names(facts::parse_strictly(list->value, source), source), "SM_HOSTS"),
                      *own};
}

}  // namespace

std::optional<FoundPlace> read_sagemaker(const PlaceView& view) {
  auto found = read_resource_config(view.snapshot);
  if (!found) found = read_sm_variables(view.variables);
  if (!found || found->hosts.value.empty()) return std::nullopt;
  std::vector<std::string>& hosts = found->hosts.value;
  // Sorted as text, algo-10 before algo-2, as the toolkit numbers them.
  std::sort(hosts.begin(), hosts.end());
  FoundPlace place = make_place("SageMaker", found->hosts.origin,
                                sourced(static_cast<int>(hosts.size()), found->hosts.origin));
  place.workers = read_workers(view.variables, "SM_NUM_GPUS");
  place.job = view.variables.text("TRAINING_JOB_ARN", "TRAINING_JOB_NAME");
  if (hosts.size() < 2) return place;
  const auto own = std::find(hosts.begin(), hosts.end(), found->own.value);
  if (own == hosts.end()) {
    throw Error(fmt::format("{} names {} as this host, which is not among its hosts", found->own.origin,
                            printable(found->own.value, 80)),
                k_sagemaker_hint);
  }
  place.rank = sourced(static_cast<int>(own - hosts.begin()), found->own.origin);
  place.hosts = found->hosts;
  place.address = sourced(hosts.front(), found->hosts.origin);
  place.port = by_default(k_sagemaker_port);
  return place;
}

namespace {

constexpr const char* k_spec = "CLUSTER_SPEC";
constexpr const char* k_first_pool = "workerpool0";
constexpr const char* k_second_pool = "workerpool1";

struct VertexTask {
  std::string pool;
  int index = 0;
};

std::vector<HostText> read_pool(const facts::Json& cluster, const char* pool,
                                const facts::JsonSource& source) {
  std::vector<HostText> hosts;
  if (!cluster.contains(pool)) return hosts;
  if (!cluster[pool].is_array()) source.refuse(fmt::format("its {} is not a list", pool));
  for (const facts::Json& each : cluster[pool]) {
    if (!each.is_string()) source.refuse(fmt::format("its {} has something other than hosts", pool));
    hosts.push_back(read_host_text(each.get<std::string>(), k_spec));
  }
  return hosts;
}

VertexTask read_task(const facts::Json& spec, const facts::JsonSource& source) {
  const bool there = spec.contains("task") && spec["task"].is_object();
  const facts::Json task = there ? spec["task"] : facts::Json::object();
  if (!task.contains("type") || !task["type"].is_string() || !task.contains("index") ||
      !task["index"].is_number_integer())
    source.refuse("it does not name the task of this process");
  const auto index = task["index"].get<std::int64_t>();
  if (index < 0 || index > k_most) source.refuse("its task has no index from 0");
  return {task["type"].get<std::string>(), static_cast<int>(index)};
}

// Pools 2 and 3 have parameter or reduction servers and evaluators.
void check_is_node(const VertexTask& task, std::size_t first_pool) {
  if (task.pool == k_first_pool || task.pool == k_second_pool) {
    if (task.pool == k_second_pool || task.index < static_cast<int>(first_pool)) return;
  }
  throw Error(fmt::format("{}: task {} of {} is not a node of the training; {} and {} are", k_spec,
                          task.index, printable(task.pool, 40), k_first_pool, k_second_pool),
              "do not start ddprun in that pool, or use this host alone with --nnodes 1");
}

}  // namespace

std::optional<FoundPlace> read_vertex(const PlaceView& view) {
  const auto text = view.variables.text(k_spec);
  if (!text) return std::nullopt;
  const facts::JsonSource source{k_spec, "unset it if it was set manually"};
  const facts::Json spec = facts::parse_strictly(text->value, source);
  const bool whole = spec.is_object() && spec.contains("cluster") && spec["cluster"].is_object();
  if (!whole || !spec["cluster"].contains(k_first_pool)) return std::nullopt;  // another program's
  std::vector<HostText> hosts = read_pool(spec["cluster"], k_first_pool, source);
  const std::size_t first_pool = hosts.size();
  for (HostText& host : read_pool(spec["cluster"], k_second_pool, source)) hosts.push_back(std::move(host));
  if (first_pool == 0) source.refuse(fmt::format("its {} is empty", k_first_pool));
  const VertexTask task = read_task(spec, source);
  check_is_node(task, first_pool);
  FoundPlace place = make_place("Vertex AI", k_spec, sourced(static_cast<int>(hosts.size()), k_spec));
  const int before = task.pool == k_first_pool ? 0 : static_cast<int>(first_pool);
  place.rank = sourced(before + task.index, k_spec);
  place.job = view.variables.text("CLOUD_ML_JOB_ID");
  place.hosts = sourced(std::vector<std::string>{}, k_spec);
  for (const HostText& host : hosts) place.hosts->value.push_back(host.host);
  place.address = sourced(hosts.front().host, k_spec);
  if (hosts.front().port) place.port = sourced(*hosts.front().port, k_spec);
  return place;
}

}  // namespace ddprun::allocation::place_rows
