#include <fmt/format.h>

#include "allocation/places/host_text.hpp"
#include "allocation/places/place_rows.hpp"

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

}  // namespace ddprun::allocation::place_rows
