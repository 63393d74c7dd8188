#include <fmt/format.h>

#include "allocation/places/host_text.hpp"
#include "allocation/places/place_rows.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/json_reader.hpp"

namespace ddprun::allocation::place_rows {

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
