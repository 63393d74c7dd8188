#include <fmt/format.h>

#include <algorithm>

#include "allocation/places/host_text.hpp"
#include "allocation/places/place_rows.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/json_reader.hpp"

namespace ddprun::allocation::place_rows {

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

}  // namespace ddprun::allocation::place_rows
