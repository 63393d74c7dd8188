// render_text and render_json of a launch that ddprun carries to other hosts itself.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ddprun/allocation/hostlist.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/plan/carrier.hpp"
#include "ddprun/plan/text_table.hpp"

namespace ddprun {

namespace {

constexpr std::size_t k_commands_shown = 8;

std::string hosts_text(const CarrierPlan& plan) {
  return fmt::format("{}: {}", plan.hosts.size(), compress_hostlist(plan.hosts));
}

std::string task_text(TaskWay way) {
  switch (way) {
    case TaskWay::environment:
      return "passed by the carrier";
    case TaskWay::input:
      return "sent through the carrier's standard input";
    case TaskWay::lifeline:
      return "asked for over the network";
  }
  return {};
}

void show_where(TextTable& table, const CarrierPlan& plan) {
  const Allocation& allocation = plan.allocation;
  table.heading("where");
  table.row("scheduler", to_string(allocation.scheduler.value), allocation.scheduler.origin);
  if (!allocation.job_id.value.empty()) table.row("job", allocation.job_id.value, allocation.job_id.origin);
  table.row("launch", to_string(allocation.style.value), allocation.style.origin);
  table.row("hosts", hosts_text(plan), allocation.hosts.origin);
}

void show_carrier(TextTable& table, const CarrierPlan& plan) {
  table.heading("how ddprun gets there");
  table.row("carrier", plan.carrier.value, plan.carrier.origin);
  table.row("environment", task_text(plan.task));
  for (std::size_t i = 0; i < std::min(plan.commands.size(), k_commands_shown); ++i) {
    table.row(plan.commands[i].host.empty() ? "command" : plan.commands[i].host,
              shell_quote(plan.commands[i].words));
  }
  if (plan.commands.size() > k_commands_shown) {
    table.row(
        "", fmt::format("and {} more; --dry-run=json has them all", plan.commands.size() - k_commands_shown));
  }
}

void show_workers(TextTable& table, const CarrierPlan& plan) {
  table.heading("workers");
  if (plan.workers.value == 0) {
    table.row("on each host", "each ddprun decides there", plan.workers.origin);
    return;
  }
  table.row("on each host", std::to_string(plan.workers.value), plan.workers.origin);
  table.row(
      "in all", std::to_string(plan.hosts.size() * static_cast<std::size_t>(plan.workers.value)),
      fmt::format("{} hosts, if all have {}", plan.hosts.size(), count_of(plan.workers.value, "worker")));
}

}  // namespace

std::string render_text(const CarrierPlan& plan) {
  TextTable table;
  table.heading(fmt::format("ddprun {}: how it would start itself on {}; nothing is started", DDPRUN_VERSION,
                            count_of(static_cast<std::int64_t>(plan.hosts.size()), "host")));
  show_where(table, plan);
  show_carrier(table, plan);
  show_workers(table, plan);
  if (!plan.changes.empty()) table.heading("variables of ddprun there", 31, 30);
  for (const VariableChange& change : plan.changes) {
    table.row(change.name, change.value.value_or("(removed)"), change.origin);
  }
  if (!plan.notices.empty()) table.heading("notices");
  for (const Notice& notice : plan.notices) {
    table.line(notice.what);
    if (!notice.hint.empty()) table.line("hint: " + notice.hint);
  }
  return table.text();
}

std::string render_json(const CarrierPlan& plan) {
  using Json = nlohmann::ordered_json;
  Json object;
  object["format"] = 1;
  object["version"] = DDPRUN_VERSION;
  object["scheduler"] = to_string(plan.allocation.scheduler.value);
  object["job"] = plan.allocation.job_id.value;
  object["launch"] = to_string(plan.allocation.style.value);
  object["hosts"] = plan.hosts;
  object["carrier"] = {{"name", plan.carrier.value}, {"origin", plan.carrier.origin}};
  object["commands"] = Json::array();
  for (const CarrierCommand& command : plan.commands) {
    Json entry;
    if (!command.host.empty()) entry["host"] = command.host;
    entry["words"] = command.words;
    object["commands"].push_back(std::move(entry));
  }
  object["variables"] = Json::object();
  for (const VariableChange& change : plan.changes) {
    object["variables"][change.name] = change.value ? Json(*change.value) : Json(nullptr);
  }
  object["workers"] = plan.workers.value == 0 ? Json(nullptr) : Json(plan.workers.value);
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun
