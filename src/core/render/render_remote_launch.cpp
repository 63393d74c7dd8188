#include "render/render_remote_launch.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "allocation/hostlist.hpp"
#include "allocation/schedulers/job_end.hpp"
#include "allocation/schedulers/slurm_place.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "options/options.hpp"
#include "plan/world_plan.hpp"
#include "render/render_json.hpp"
#include "render/text_table.hpp"
#include "version_number.hpp"

namespace ddprun::render {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t k_commands_shown = 8;

// Describes the hosts. Flux starts its tasks by number and shows no names.
std::string hosts_text(const std::vector<std::string>& hosts) {
  const bool named = !hosts.empty() && !hosts.front().empty();
  return named ? fmt::format("{}: {}", hosts.size(), allocation::compress_hostlist(hosts))
               : std::to_string(hosts.size());
}

std::vector<std::string> spares_of(const selflaunch::SelfLaunchPlan& plan) {
  return {plan.hosts.end() - plan.spares.value, plan.hosts.end()};
}

std::int64_t nodes_of(const selflaunch::SelfLaunchPlan& plan) {
  return static_cast<std::int64_t>(plan.hosts.size()) - plan.spares.value;
}

std::int64_t world_size(const selflaunch::SelfLaunchPlan& plan) {
  const std::vector<int>& each = plan.workers_of_nodes;
  return each.empty() ? nodes_of(plan) * plan.workers.value
                      : std::accumulate(each.begin(), each.end(), std::int64_t{0});
}

std::string world_origin(const selflaunch::SelfLaunchPlan& plan) {
  if (!plan.workers_of_nodes.empty()) return plan.workers.origin;
  return fmt::format("{}, if all have {}", count_of(nodes_of(plan), "node"),
                     count_of(plan.workers.value, "worker"));
}

const char* task_word(selflaunch::TaskWay way) {
  return way == selflaunch::TaskWay::environment ? "remote_launcher"
         : way == selflaunch::TaskWay::input     ? "input"
                                                 : "network";
}

std::string task_text(selflaunch::TaskWay way) {
  switch (way) {
    case selflaunch::TaskWay::environment:
      return "passed by the remote launcher";
    case selflaunch::TaskWay::input:
      return "sent through the remote launcher's standard input";
    case selflaunch::TaskWay::lifeline:
      return fmt::format("fetched from this ddprun over the network; {} is set at run time",
                         selflaunch::k_front_end_word);
  }
  return {};
}

void show_where(TextTable& table, const selflaunch::SelfLaunchPlan& plan, const facts::Snapshot& snapshot,
                const options::TimeLimitOptions& limit) {
  const allocation::Allocation& allocation = plan.allocation;
  table.heading("where");
  table.row("scheduler", allocation::to_string(allocation.scheduler.value), allocation.scheduler.origin);
  if (!allocation.job_id.value.empty()) table.row("job", allocation.job_id.value, allocation.job_id.origin);
  show_time_limit(table, allocation, limit, snapshot);
  table.row("launch", allocation::to_string(allocation.style.value), allocation.style.origin);
  table.row("hosts", hosts_text(plan.hosts), allocation.hosts.origin);
}

void show_remote_launcher(TextTable& table, const selflaunch::SelfLaunchPlan& plan) {
  table.heading("remote launcher");
  table.row("name", plan.remote_launcher.value, plan.remote_launcher.origin);
  table.row("environment", task_text(plan.task));
  if (plan.launcher_args.known())
    table.row("arguments", shell_quote(plan.launcher_args.value), plan.launcher_args.origin);
  for (std::size_t i = 0; i < std::min(plan.commands.size(), k_commands_shown); ++i) {
    table.row(plan.commands[i].host.empty() ? "command" : plan.commands[i].host,
              shell_quote(plan.commands[i].words));
  }
  if (plan.commands.size() > k_commands_shown) {
    table.row(
        "", fmt::format("and {} more; --dry-run=json has them all", plan.commands.size() - k_commands_shown));
  }
}

void show_workers(TextTable& table, const selflaunch::SelfLaunchPlan& plan) {
  table.heading("workers");
  if (plan.spares.value > 0) table.row("spares", hosts_text(spares_of(plan)), plan.spares.origin);
  if (plan.workers.value == 0) {
    table.row("on each node", "decided on each node", plan.workers.origin);
    return;
  }
  const std::vector<int>& each = plan.workers_of_nodes;
  table.row("on each node", each.empty() ? std::to_string(plan.workers.value) : plan::write_counts(each),
            plan.workers.origin);
  table.row("world size", std::to_string(world_size(plan)), world_origin(plan));
}

Json remote_launcher_json(const selflaunch::SelfLaunchPlan& plan) {
  Json json;
  json["name"] = with_origin(plan.remote_launcher.value, plan.remote_launcher.origin);
  json["hosts"] = Json::array();
  for (const std::string& host : plan.hosts) json["hosts"].push_back(host.empty() ? Json() : Json(host));
  json["environment"] = task_word(plan.task);
  json["commands"] = Json::array();
  for (const selflaunch::RemoteCommand& command : plan.commands) {
    json["commands"].push_back(
        {{"host", command.host.empty() ? Json() : Json(command.host)}, {"words", command.words}});
  }
  json["variables"] = Json::object();
  for (const plan::VariableChange& change : plan.changes)
    json["variables"][change.name] = change.value ? Json(*change.value) : Json();
  return json;
}

}  // namespace

std::string render_text(const selflaunch::SelfLaunchPlan& plan, const facts::Snapshot& snapshot,
                        const options::TimeLimitOptions& limit) {
  TextTable table;
  table.heading(fmt::format("ddprun {}: how it would start itself from {} on {}; nothing is started",
                            DDPRUN_VERSION, snapshot.host.name,
                            count_of(static_cast<std::int64_t>(plan.hosts.size()), "host")));
  show_where(table, plan, snapshot, limit);
  show_remote_launcher(table, plan);
  show_workers(table, plan);
  if (!plan.changes.empty()) table.heading("variables of the remote ddprun", 31, 30);
  for (const plan::VariableChange& change : plan.changes) {
    table.row(change.name, change.value.value_or("(removed)"), change.origin);
  }
  if (!plan.notices.empty()) table.heading("notices");
  for (const allocation::Notice& notice : plan.notices) {
    table.line(notice.what);
    if (!notice.hint.empty()) table.line("hint: " + notice.hint);
  }
  return table.text();
}

std::string render_json(const selflaunch::SelfLaunchPlan& plan, const facts::Snapshot& snapshot,
                        const options::TimeLimitOptions& limit) {
  Json json;
  json["format"] = 1;
  json["version"] = DDPRUN_VERSION;
  json["host"] = snapshot.host.name;
  json["allocation"] = allocation_json(plan.allocation);
  json["time_limit"] = time_limit_json(plan.allocation, limit, snapshot);
  json["remote_launcher"] = remote_launcher_json(plan);
  const bool known = plan.workers.value != 0;
  const bool alike = known && plan.workers_of_nodes.empty();
  json["workers_per_node"] = with_origin(alike   ? Json(plan.workers.value)
                                         : known ? Json(plan.workers_of_nodes)
                                                 : Json(),
                                         plan.workers.origin);
  json["world_size"] =
      with_origin(known ? Json(world_size(plan)) : Json(), known ? world_origin(plan) : plan.workers.origin);
  json["notices"] = notices_json(plan.notices);
  return write_json_text(json, 2) + "\n";
}

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
