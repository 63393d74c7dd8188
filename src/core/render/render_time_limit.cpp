#include "render/render_time_limit.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <string>
#include <vector>

#include "allocation/schedulers/job_end.hpp"
#include "allocation/schedulers/slurm_place.hpp"
#include "base/text.hpp"
#include "options/options.hpp"
#include "render/render_json.hpp"

namespace ddprun::render {

namespace {

using Json = nlohmann::ordered_json;

std::string limit_text(std::int64_t end, std::int64_t now) {
  const auto time = static_cast<std::time_t>(end);
  const std::int64_t minutes = (end - now) / 60;
  const std::string left =
      end <= now ? "none left" : fmt::format("{} h {:02} min left", minutes / 60, minutes % 60);
  return fmt::format("{}, until {:%Y-%m-%d %H:%M:%S} UTC", left, fmt::gmtime(time));
}

std::string requeue_text(const options::TimeLimitOptions& limit) {
  std::vector<std::string> when;
  if (limit.signal) when.emplace_back("after the signal");
  if (limit.resumes) when.emplace_back("at the limit");
  if (const auto& codes = limit.requeue_on.value; !codes.empty())
    when.push_back(fmt::format("on code {}", fmt::join(codes, ", ")));
  if (const auto& codes = limit.no_requeue_on.value; !codes.empty())
    when.push_back(fmt::format("not on code {}", fmt::join(codes, ", ")));
  const int most = limit.requeue->value;
  const std::string count = most > 0 ? ", at most " + count_of(most, "time") : std::string();
  return (when.empty() ? "never: no signal, no code, no --checkpoint-flush" : join(when, ", ")) + count;
}

// Returns the time from the scheduler's SIGTERM to its SIGKILL; no origin: not known.
Sourced<Milliseconds> end_grace_of(const allocation::Allocation& allocation,
                                   const facts::Snapshot& snapshot) {
  const auto config = snapshot.files.find(std::string(allocation::k_slurm_config));
  return allocation::end_grace(allocation.scheduler.value,
                               config == snapshot.files.end() ? std::string() : config->second);
}

}  // namespace

void show_time_limit(TextTable& table, const allocation::Allocation& allocation,
                     const options::TimeLimitOptions& limit, const facts::Snapshot& snapshot) {
  if (const auto& end = allocation.end_time) {
    table.row("time limit", limit_text(end->value, snapshot.unix_time), end->origin);
    const Sourced<Milliseconds> grace = end_grace_of(allocation, snapshot);
    if (grace.known())
      table.row("", describe_duration(grace.value) + " from SIGTERM to SIGKILL", grace.origin);
    if (allocation::ends_with_batch_shell(snapshot.host))
      table.row("", "none where SIGTERM ends the script's shell first", "ddprun was started without exec");
  }
  if (const auto& signal = limit.signal) {
    table.row("signal",
              fmt::format("{} to each rank, {} before the limit", options::signal_name(signal->value.signal),
                          describe_duration(signal->value.before)),
              signal->origin);
    if (!allocation.end_time) table.row("", "not sent where no limit is known");
  }
  if (limit.min_attempt.value > Milliseconds{0})
    table.row("min attempt",
              "no restart within " + describe_duration(limit.min_attempt.value) + " of the limit",
              limit.min_attempt.origin);
  if (limit.requeue) table.row("requeue", requeue_text(limit), limit.requeue->origin);
}

Json time_limit_json(const allocation::Allocation& allocation, const options::TimeLimitOptions& limit,
                     const facts::Snapshot& snapshot) {
  const bool asked = limit.signal || limit.requeue || limit.min_attempt.value > Milliseconds{0};
  if (!allocation.end_time && !asked) return {};
  Json json;
  const Sourced<Milliseconds> grace = end_grace_of(allocation, snapshot);
  json["grace_seconds"] = grace.known() ? with_origin(seconds(grace.value), grace.origin) : Json();
  json["ends_with_shell"] = allocation::ends_with_batch_shell(snapshot.host);
  const auto& signal = limit.signal;
  json["signal"] = signal ? with_origin(options::signal_name(signal->value.signal), signal->origin) : Json();
  json["signal_seconds_before"] = signal ? Json(seconds(signal->value.before)) : Json();
  json["requeue"] = limit.requeue ? with_origin(limit.requeue->value, limit.requeue->origin) : Json();
  json["requeue_on"] = with_origin(limit.requeue_on.value, limit.requeue_on.origin);
  json["no_requeue_on"] = with_origin(limit.no_requeue_on.value, limit.no_requeue_on.origin);
  json["min_attempt_seconds"] = with_origin(seconds(limit.min_attempt.value), limit.min_attempt.origin);
  return json;
}

}  // namespace ddprun::render
