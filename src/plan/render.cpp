#include "ddprun/plan/render.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ddprun/allocation/hostlist.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/plan/ports.hpp"
#include "ddprun/plan/worker_env.hpp"

namespace ddprun {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t k_columns = 100;
constexpr std::size_t k_name_width = 22;
constexpr std::size_t k_value_width = 38;

// Values that do not exist before the agents have met or the worker starts.
constexpr const char* k_agreed = "(agreed at the rendezvous)";
constexpr const char* k_at_start = "(made at the start)";

bool is_decided(const std::string& value) { return value != k_agreed && value != k_at_start; }

// Three columns: name, value, origin. A value that is too wide moves the origin to the next line.
class Table {
 public:
  void heading(const std::string& text) { text_ += (text_.empty() ? "" : "\n") + text + "\n"; }

  void row(const std::string& name, const std::string& value, const std::string& origin = {}) {
    std::string line = fmt::format("  {:<{}} ", name, k_name_width);
    const std::size_t indent = name.size() > k_name_width ? line.size() : k_name_width + 3;
    const bool narrow = value.size() <= k_value_width && indent == k_name_width + 3;
    if (origin.empty() || !narrow) {
      append_wrapped(line, value, indent);
      if (!origin.empty())
        append_wrapped(std::string(k_name_width + 3, ' '), "<- " + origin, k_name_width + 6);
      return;
    }
    line += fmt::format("{:<{}} ", value, k_value_width);
    append_wrapped(line, origin, line.size());
  }

  void line(const std::string& text) { append_wrapped("  ", text, 4); }
  std::string take() { return std::move(text_); }

 private:
  void append_wrapped(std::string line, std::string rest, std::size_t indent) {
    while (line.size() + rest.size() > k_columns) {
      const std::size_t room = k_columns - line.size();
      std::size_t cut = rest.rfind(' ', room);
      if (cut == std::string::npos || cut == 0) cut = room;
      text_ += line + rest.substr(0, cut) + "\n";
      rest.erase(0, rest[cut] == ' ' ? cut + 1 : cut);
      line = std::string(indent, ' ');
    }
    line += rest;
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text_ += line + "\n";
  }

  std::string text_;
};

std::vector<VariableChange> expected_changes(const NodePlan& plan, const Snapshot& snapshot,
                                             std::size_t worker) {
  const Assignment assignment = make_expected_assignment(plan);
  WorkerContext context;
  context.worker = worker;
  context.error_file = k_at_start;
  context.launch_id = k_at_start;
  if (assignment.node_count > 1) context.interface = k_agreed;
  std::vector<VariableChange> changes = make_worker_changes(plan, assignment, snapshot.environment, context);
  for (VariableChange& change : changes) {
    const bool open = (change.name == "MASTER_ADDR" && change.value == "") ||
                      (change.name == "MASTER_PORT" && change.value == "0");
    if (open) change.value = k_agreed;
  }
  return changes;
}

std::vector<std::string> host_names(const Allocation& allocation) {
  std::vector<std::string> names;
  for (const Host& host : allocation.hosts.value) names.push_back(host.name);
  return names;
}

std::string role_text(const RendezvousPlan& rendezvous) {
  switch (rendezvous.role) {
    case RendezvousRole::solo:
      return "none needed: this is the only ddprun";
    case RendezvousRole::coordinator:
      return fmt::format("coordinator of {} agents", rendezvous.agents);
    case RendezvousRole::member:
      return fmt::format("agent {} of {}; {} coordinates", rendezvous.agent.value, rendezvous.agents,
                         rendezvous.peers.front());
  }
  return {};
}

const char* role_word(RendezvousRole role) {
  return role == RendezvousRole::solo          ? "solo"
         : role == RendezvousRole::coordinator ? "coordinator"
                                               : "member";
}

std::string store_text(const NodePlan& plan) {
  const int world = plan.world_size ? plan.world_size->value : 0;
  if (worker_hosts_store(plan.options, world)) return "hosted by the worker of rank 0";
  return plan.rendezvous.agents == 1 ? "hosted by this ddprun"
                                     : "hosted by ddprun on " + plan.rendezvous.peers.front();
}

void show_allocation(Table& table, const NodePlan& plan) {
  const Allocation& allocation = plan.allocation;
  table.heading("allocation");
  table.row("scheduler", to_string(allocation.scheduler.value), allocation.scheduler.origin);
  table.row("style", to_string(allocation.style.value), allocation.style.origin);
  if (!allocation.job_id.value.empty()) table.row("job", allocation.job_id.value, allocation.job_id.origin);
  if (!allocation.step_id.value.empty())
    table.row("step", allocation.step_id.value, allocation.step_id.origin);
  const std::size_t hosts = allocation.hosts.value.size();
  table.row("hosts", fmt::format("{}: {}", hosts, compress_hostlist(host_names(allocation))),
            allocation.hosts.origin);
  table.row("this host",
            fmt::format("{}, node {} of {}", plan.host, allocation.node_index.value.value, hosts),
            allocation.node_index.origin);
  if (allocation.style.value == LaunchStyle::agent_per_task) {
    table.row("this task", fmt::format("{} of {}", allocation.task_rank.value, allocation.task_count.value),
              allocation.task_rank.origin);
  }
}

void show_rendezvous(Table& table, const NodePlan& plan) {
  const RendezvousPlan& rendezvous = plan.rendezvous;
  table.heading("rendezvous");
  table.row("role", role_text(rendezvous));
  if (rendezvous.role != RendezvousRole::solo) {
    table.row("address", join(rendezvous.addresses.value, " "), rendezvous.addresses.origin);
    table.row("port", fmt::format("{}", fmt::join(rendezvous.ports.value, " ")), rendezvous.ports.origin);
    table.row("deadline", describe_duration(rendezvous.join_timeout), plan.options.join_timeout.origin);
  }
  table.row("store", store_text(plan));
}

void show_workers(Table& table, const NodePlan& plan) {
  table.heading("workers");
  table.row("on this host", fmt::format("{}", plan.local_world_size), plan.workers.origin);
  if (plan.world_size) {
    table.row("in all", fmt::format("{}", plan.world_size->value), plan.world_size->origin);
  }
  table.row("restarts", fmt::format("{}", plan.options.max_restarts.value), plan.options.max_restarts.origin);
  table.row("stop",
            fmt::format("the signal, {} of grace, then SIGKILL",
                        describe_duration(plan.options.shutdown_timeout.value)),
            plan.options.shutdown_timeout.origin);
  for (const PlannedWorker& worker : plan.planned) {
    const std::string device = worker.device.empty() ? "" : ", device " + worker.device;
    table.row(fmt::format("rank {}, local {}{}", worker.rank ? worker.rank->value : -1,
                          worker.local_rank.value, device),
              shell_quote(worker.command));
  }
}

void show_variables(Table& table, const NodePlan& plan, const Snapshot& snapshot) {
  if (plan.planned.empty()) return;
  table.heading(
      fmt::format("variables of rank {}", plan.planned.front().rank ? plan.planned.front().rank->value : 0));
  for (const VariableChange& change : expected_changes(plan, snapshot, 0)) {
    table.row(change.name, change.value ? printable(*change.value, 400) : "(removed)", change.origin);
  }
}

template <class T>
Json with_origin(const T& value, const std::string& origin) {
  return Json{{"value", value}, {"origin", origin}};
}

Json allocation_json(const NodePlan& plan) {
  const Allocation& allocation = plan.allocation;
  Json hosts = Json::array();
  for (const Host& host : allocation.hosts.value)
    hosts.push_back({{"name", host.name}, {"tasks", host.tasks}});
  Json json;
  json["scheduler"] = with_origin(to_string(allocation.scheduler.value), allocation.scheduler.origin);
  json["style"] = with_origin(to_string(allocation.style.value), allocation.style.origin);
  json["job_id"] = with_origin(allocation.job_id.value, allocation.job_id.origin);
  json["step_id"] = with_origin(allocation.step_id.value, allocation.step_id.origin);
  json["restart_count"] = with_origin(allocation.restart_count.value, allocation.restart_count.origin);
  json["hosts"] = with_origin(hosts, allocation.hosts.origin);
  json["node_index"] = with_origin(allocation.node_index.value.value, allocation.node_index.origin);
  json["task_count"] = with_origin(allocation.task_count.value, allocation.task_count.origin);
  json["task_rank"] = with_origin(allocation.task_rank.value, allocation.task_rank.origin);
  if (allocation.end_time) {
    json["end_time"] = with_origin(allocation.end_time->value, allocation.end_time->origin);
  }
  return json;
}

Json rendezvous_json(const NodePlan& plan) {
  const RendezvousPlan& rendezvous = plan.rendezvous;
  Json json;
  json["role"] = role_word(rendezvous.role);
  json["agents"] = rendezvous.agents;
  json["agent"] = rendezvous.agent.value;
  json["key"] = rendezvous.key;
  json["addresses"] = with_origin(rendezvous.addresses.value, rendezvous.addresses.origin);
  json["ports"] = with_origin(rendezvous.ports.value, rendezvous.ports.origin);
  json["join_timeout_seconds"] = static_cast<double>(rendezvous.join_timeout.count()) / 1000.0;
  json["store"] =
      worker_hosts_store(plan.options, plan.world_size ? plan.world_size->value : 0) ? "worker" : "agent";
  return json;
}

Json worker_json(const NodePlan& plan, const Snapshot& snapshot, std::size_t index) {
  const PlannedWorker& worker = plan.planned[index];
  Json env = Json::object();
  Json unset = Json::array();
  Json origins = Json::object();
  for (const VariableChange& change : expected_changes(plan, snapshot, index)) {
    origins[change.name] = change.origin;
    if (!change.value) {
      unset.push_back(change.name);
    } else {
      env[change.name] = is_decided(*change.value) ? Json(*change.value) : Json();
    }
  }
  Json json;
  json["rank"] = worker.rank ? Json(worker.rank->value) : Json();
  json["local_rank"] = worker.local_rank.value;
  json["device"] = worker.device.empty() ? Json() : Json(worker.device);
  json["command"] = worker.command;
  json["env"] = env;
  json["unset"] = unset;
  json["origins"] = origins;
  return json;
}

}  // namespace

Assignment make_expected_assignment(const NodePlan& plan) {
  Assignment assignment;
  assignment.world_size = plan.world_size ? plan.world_size->value : plan.workers.value;
  assignment.local_world_size = plan.local_world_size;
  assignment.node = plan.allocation.node_index.value;
  assignment.node_count = std::max<int>(1, static_cast<int>(plan.allocation.hosts.value.size()));
  if (plan.rendezvous.agents == 1) {
    assignment.master_address = plan.solo_address;
    assignment.master_port = plan.store_port.value_or(0);
  }
  for (const PlannedWorker& worker : plan.planned) {
    const GlobalRank rank = worker.rank.value_or(GlobalRank{worker.local_rank.value});
    assignment.seats.push_back({rank, worker.local_rank, rank.value, assignment.world_size});
  }
  return assignment;
}

std::string render_text(const NodePlan& plan, const Snapshot& snapshot) {
  Table table;
  table.heading(
      fmt::format("ddprun {}: what would happen on {}; nothing is started", DDPRUN_VERSION, plan.host));
  show_allocation(table, plan);
  show_rendezvous(table, plan);
  show_workers(table, plan);
  show_variables(table, plan, snapshot);
  if (!plan.notices.empty()) table.heading("notices");
  for (const Notice& notice : plan.notices) {
    table.line(notice.what);
    if (!notice.hint.empty()) table.line("hint: " + notice.hint);
  }
  return table.take();
}

std::string render_json(const NodePlan& plan, const Snapshot& snapshot) {
  Json json;
  json["format"] = 1;
  json["version"] = DDPRUN_VERSION;
  json["host"] = plan.host;
  json["allocation"] = allocation_json(plan);
  json["rendezvous"] = rendezvous_json(plan);
  json["world_size"] =
      plan.world_size ? with_origin(plan.world_size->value, plan.world_size->origin) : Json();
  json["workers"] = Json::array();
  for (std::size_t i = 0; i < plan.planned.size(); ++i)
    json["workers"].push_back(worker_json(plan, snapshot, i));
  json["notices"] = Json::array();
  for (const Notice& notice : plan.notices) {
    json["notices"].push_back({{"what", notice.what}, {"hint", notice.hint}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render_shell(const NodePlan& plan, const Snapshot& snapshot) {
  const RendezvousPlan& rendezvous = plan.rendezvous;
  std::string lines;
  for (const VariableChange& change : expected_changes(plan, snapshot, 0)) {
    std::string value = change.value.value_or("");
    if (change.name == "MASTER_ADDR" && !is_decided(value)) value = rendezvous.addresses.value.front();
    if (change.name == "MASTER_PORT" && !is_decided(value)) {
      const auto ports =
          rendezvous.ports.value.empty() ? make_port_sequence(rendezvous.key) : rendezvous.ports.value;
      value = fmt::format("{}", ports.front());
    }
    // No agent will be there to host the store.
    if (change.name == "TORCHELASTIC_USE_AGENT_STORE") value = "False";
    if (!change.value) {
      lines += fmt::format("unset {}\n", change.name);
    } else if (is_decided(value)) {
      lines += fmt::format("export {}={}\n", change.name, shell_quote(value));
    }
  }
  return lines;
}

}  // namespace ddprun
