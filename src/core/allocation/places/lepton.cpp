#include <fmt/format.h>

#include "allocation/places/host_text.hpp"
#include "allocation/places/place_rows.hpp"

namespace ddprun::allocation::place_rows {

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

}  // namespace ddprun::allocation::place_rows
