#include <fmt/format.h>

#include "allocation/manual.hpp"
#include "allocation/places/host_text.hpp"
#include "allocation/places/place_rows.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation::place_rows {

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

}  // namespace ddprun::allocation::place_rows
