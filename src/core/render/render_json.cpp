// render_json: the plan as one object; ddprun-formats(5) describes it.

#include "render/render_json.hpp"

#include <algorithm>
#include <array>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "plan/finalise.hpp"
#include "plan/launch_nodes.hpp"
#include "plan/worker_env.hpp"
#include "plan/world_plan.hpp"
#include "render/node_words.hpp"
#include "render/render_plan.hpp"
#include "render/render_remote_launch.hpp"
#include "version_number.hpp"

namespace ddprun::render {

namespace {

using Json = nlohmann::ordered_json;

const char* role_word(plan::RendezvousRole role) {
  return role == plan::RendezvousRole::solo          ? "solo"
         : role == plan::RendezvousRole::coordinator ? "coordinator"
                                                     : "member";
}

Json unless_empty(const Sourced<std::string>& text) {
  return text.value.empty() ? Json() : with_origin(text.value, text.origin);
}

// Returns the hosts. In a launch by hand the names of the others are left out unless they were listed: they
// are unknown before the agents meet.
Json hosts_json(const allocation::Allocation& allocation) {
  const bool unnamed = allocation.scheduler.value == facts::Scheduler::manual && !allocation.place.known() &&
                       allocation.style.value != allocation::LaunchStyle::not_started;
  Json hosts = Json::array();
  for (const allocation::Host& host : allocation.hosts.value) {
    const bool own = NodeIndex{static_cast<int>(hosts.size())} == allocation.node_index.value;
    const bool known = !host.name.empty() && (!unnamed || own);
    hosts.push_back(
        {{"name", known ? Json(host.name) : Json()}, {"tasks", host.tasks > 0 ? Json(host.tasks) : Json()}});
  }
  return with_origin(hosts, allocation.hosts.origin);
}

Json site_json(const site::SitePlan& site) {
  if (!site.known()) return {};
  Json json;
  json["name"] = with_origin(site.profile.name, site.origin);
  json["profile"] = site.profile.source;
  json["notes"] = site.profile.notes;
  return json;
}

Json rendezvous_json(const plan::LaunchPlan& plan) {
  const plan::RendezvousPlan& rendezvous = plan.node->rendezvous;
  Json json;
  json["role"] = role_word(rendezvous.role);
  json["agents"] = rendezvous.agents;
  json["agent"] = rendezvous.agent.value;
  json["key"] = rendezvous.key;
  const bool solo = rendezvous.role == plan::RendezvousRole::solo;
  json["addresses"] = solo ? Json() : with_origin(rendezvous.addresses.value, rendezvous.addresses.origin);
  json["ports"] = solo ? Json() : with_origin(rendezvous.ports.value, rendezvous.ports.origin);
  const std::string key_value_space = key_value_space_name(rendezvous.key_value_space);
  json["key_value_space"] =
      key_value_space.empty() ? Json() : with_origin(key_value_space, plan.node->allocation.launcher.value);
  json["rendezvous_file"] = unless_empty(rendezvous.rendezvous_file);
  json["secrets"] = Json::array();
  for (const allocation::JobSecret& secret : rendezvous.secrets) json["secrets"].push_back(secret.origin);
  json["join_timeout_seconds"] =
      with_origin(seconds(rendezvous.join_timeout), plan.node->options.join_timeout.origin);
  json["host_timeout_seconds"] =
      with_origin(seconds(plan.node->options.host_timeout.value), plan.node->options.host_timeout.origin);
  const auto& least = plan.node->options.least_nodes;
  json["least_nodes"] = least ? with_origin(least->value, least->origin) : Json();
  json["spares"] = with_origin(plan.node->options.spares.value, plan.node->options.spares.origin);
  json["spare_hosts"] = plan::spare_hosts(rendezvous, plan.node->options);
  const plan::NodeProposal& node = *plan.node;
  json["order"] = with_origin(node.options.order.value, node.options.order.origin);
  json["ordered_agents"] = rendezvous.order;
  json["switches"] = node.network.own.switches.empty()
                         ? Json()
                         : with_origin(node.network.own.switches, node.network.origin);
  json["nvlink_domain"] = node.network.own.domain.empty() ? Json() : Json(node.network.own.domain);
  json["store"] =
      plan::worker_hosts_store(plan.node->options, plan.node->world_size.value) ? "worker" : "agent";
  json["store_fan_out"] =
      plan::has_store_relays(*plan.node) ? Json(plan.node->options.store_tree.fan_out) : Json();
  if (const auto& memory = plan.node->options.store_memory)
    json["store_memory_bytes"] = with_origin(memory->value, memory->origin);
  return json;
}

Json way_json(const plan::OutputWay& way) {
  Json json;
  json["console"] = way.console;
  json["gathered"] = way.gathered;
  json["label"] = way.label.empty() ? Json() : Json(way.label);
  json["file"] = way.file.empty() ? Json() : Json(way.file);
  return json;
}

Json output_json(const plan::LaunchPlan& plan, std::size_t index) {
  if (!plan::directs_output(plan.node->options.output)) return {};
  return {{"stdout", way_json(plan::output_way(plan, index, output::Stream::output))},
          {"stderr", way_json(plan::output_way(plan, index, output::Stream::error))}};
}

Json worker_json(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot, std::size_t index) {
  const plan::PlannedWorker& worker = plan.planned[index];
  Json env = Json::object();
  Json unset = Json::array();
  Json origins = Json::object();
  std::vector<plan::VariableChange> changes;
  for (const auto& [change, open] : plan::expected_variables(plan, snapshot.environment, index)) {
    changes.push_back(change);
    if (!change.value && !open.empty()) changes.back().value = "";
    origins[change.name] = change.origin;
    if (change.value || !open.empty()) {
      env[change.name] = change.value ? Json(*change.value) : Json();
    } else {
      unset.push_back(change.name);
    }
  }
  Json json;
  json["rank"] = worker.rank.value;
  json["local_rank"] = worker.local_rank.value;
  json["device"] = worker.device.empty() ? Json() : Json(worker.device);
  json["gpus"] = worker_gpus_json(worker, snapshot.host);
  json["network_card"] = worker.network_card.empty() ? Json() : Json(worker.network_card);
  json["binding"] = worker_binding_json(worker.binding, snapshot.host);
  json["command"] = plan::command_to_start(plan, index, changes, snapshot.environment);
  json["output"] = output_json(plan, index);
  json["env"] = std::move(env);
  json["unset"] = std::move(unset);
  json["origins"] = std::move(origins);
  return json;
}

Json stage_json(const plan::LaunchPlan& plan) {
  Json json = Json::array();
  for (const staging::Mapping& mapping : plan.staged)
    json.push_back({{"path", mapping.sources.front()}, {"copy", mapping.copy}});
  return json;
}

Json checkpoints_json(const options::CheckpointOptions& checkpoint) {
  Json json;
  json["memory_bytes"] = with_origin(checkpoint.memory->value, checkpoint.memory->origin);
  json["folder"] = checkpoint.folder;
  json["bytes_per_second"] = checkpoint.rate > 0 ? Json(checkpoint.rate) : Json();
  json["flush"] = checkpoint.flush.empty() ? Json() : Json(checkpoint.flush);
  json["flush_every_seconds"] = checkpoint.flush_every ? Json(seconds(*checkpoint.flush_every)) : Json();
  json["keep"] = checkpoint.keep;
  return json;
}

}  // namespace

Json allocation_json(const allocation::Allocation& allocation) {
  Json json;
  json["scheduler"] =
      with_origin(allocation::to_string(allocation.scheduler.value), allocation.scheduler.origin);
  json["style"] = with_origin(allocation::to_string(allocation.style.value), allocation.style.origin);
  json["style_assumed"] = allocation.style_assumed;
  json["place"] = unless_empty(allocation.place);
  json["launcher"] = unless_empty(allocation.launcher);
  json["job_id"] = unless_empty(allocation.job_id);
  json["step_id"] = unless_empty(allocation.step_id);
  json["restart_count"] = with_origin(allocation.restart_count.value, allocation.restart_count.origin);
  json["hosts"] = hosts_json(allocation);
  const auto& node = allocation.node_index;
  json["node_index"] = with_origin(node.value ? Json(node.value->value) : Json(), node.origin);
  json["task_count"] = with_origin(allocation.task_count.value, allocation.task_count.origin);
  const Sourced<int>& task = allocation.task_rank;
  json["task_rank"] = with_origin(!task.known() ? Json() : Json(task.value), task.origin);
  const auto& end = allocation.end_time;
  json["end_time"] = end ? with_origin(end->value, end->origin) : Json();
  return json;
}

Json notices_json(const std::vector<allocation::Notice>& notices) {
  Json json = Json::array();
  for (const allocation::Notice& notice : notices)
    json.push_back({{"what", notice.what}, {"hint", notice.hint}});
  return json;
}

Json restarts_json(const options::RestartOptions& restarts) {
  Json json;
  json["policy"] = with_origin(std::string(options::name_of(restarts.rule.value)), restarts.rule.origin);
  json["min_progress_seconds"] =
      with_origin(seconds(restarts.min_progress.value), restarts.min_progress.origin);
  json["no_restart_on"] = with_origin(restarts.no_restart_on.value, restarts.no_restart_on.origin);
  json["backoff_seconds"] = with_origin(seconds(restarts.backoff.value), restarts.backoff.origin);
  json["standby"] = with_origin(restarts.standby.value, restarts.standby.origin);
  return json;
}

std::string render_json(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  Json json;
  json["format"] = 1;
  json["version"] = DDPRUN_VERSION;
  json["host"] = plan.node->host;
  json["allocation"] = allocation_json(plan.node->allocation);
  json["rendezvous"] = rendezvous_json(plan);
  json["world_size"] = with_origin(plan.node->world_size.value, plan.node->world_size.origin);
  json["max_restarts"] =
      with_origin(plan.node->options.max_restarts.value, plan.node->options.max_restarts.origin);
  if (plan.node->options.max_restarts.value > 0)
    json["restarts"] = restarts_json(plan.node->options.restarts);
  json["shutdown_timeout_seconds"] = with_origin(seconds(plan.node->options.shutdown_timeout.value),
                                                 plan.node->options.shutdown_timeout.origin);
  if (const options::CheckOptions& check = plan.node->options.check; !check.command.value.empty()) {
    json["check_command"] = with_origin(check.command.value, check.command.origin);
    json["check_timeout_seconds"] = with_origin(seconds(check.limit.value), check.limit.origin);
  }
  if (const auto& command = plan.node->options.check.on_failure; !command.value.empty())
    json["on_failure"] = with_origin(command.value, command.origin);
  json["time_limit"] = time_limit_json(plan.node->allocation, plan.node->options.time_limit, snapshot);
  json["site"] = site_json(plan.node->site);
  if (!plan.staged.empty()) json["stage"] = stage_json(plan);
  if (plan.node->options.checkpoint.memory)
    json["checkpoints"] = checkpoints_json(plan.node->options.checkpoint);
  json["binding"] = binding_json(plan, snapshot.host);
  json["workers"] = Json::array();
  for (std::size_t i = 0; i < plan.planned.size(); ++i)
    json["workers"].push_back(worker_json(plan, snapshot, i));
  json["notices"] = notices_json(plan::notices_of(plan));
  return write_json_text(json, 2) + "\n";
}

// JSON of the node and of the holders of its parts.

namespace {

using Json = nlohmann::ordered_json;

Json unless_empty(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json nodes_json(const facts::Topology& topology) {
  Json nodes = Json::array();
  for (const facts::MemoryNode& node : topology.nodes) {
    nodes.push_back({{"number", node.number},
                     {"cpus", facts::render_cpu_list(node.cpus)},
                     {"memory_bytes", node.bytes > 0 ? Json(node.bytes) : Json()}});
  }
  return nodes;
}

Json gpus_json(const facts::HostFacts& host) {
  Json gpus = Json::array();
  for (const facts::Gpu& gpu : host.gpus) {
    gpus.push_back({{"vendor", gpu.vendor},
                    {"pci_address", unless_empty(gpu.pci_address)},
                    {"uuid", unless_empty(gpu.uuid)}});
  }
  return gpus;
}

Json cards_json(const facts::Topology& topology) {
  Json cards = Json::array();
  for (const facts::PciDevice& device : topology.devices) {
    if (device.kind == facts::DeviceKind::network)
      cards.push_back({{"pci_address", device.address}, {"names", device.names}});
  }
  return cards;
}

std::string not_allowed(const facts::HostFacts& host) {
  std::vector<int> cpus;
  for (const facts::Core& core : host.topology->cores) {
    for (const int cpu : core.cpus) {
      if (!std::ranges::binary_search(host.allowed_cpus, cpu)) cpus.push_back(cpu);
    }
  }
  std::ranges::sort(cpus);
  return facts::render_cpu_list(cpus);
}

std::ptrdiff_t count_cores(const std::vector<int>& cpus, const facts::Topology& topology) {
  const auto held = [&](int cpu) { return std::ranges::binary_search(cpus, cpu); };
  return std::ranges::count_if(topology.cores,
                               [&](const facts::Core& core) { return std::ranges::any_of(core.cpus, held); });
}

}  // namespace

Json binding_json(const plan::LaunchPlan& plan, const facts::HostFacts& host) {
  if (!host.topology) return {};
  Json json;
  json["origin"] = plan.binding.origin;
  json["topology"] = host.topology->source;
  json["packages"] = host.topology->packages;
  json["nodes"] = nodes_json(*host.topology);
  json["gpus"] = gpus_json(host);
  json["network_cards"] = cards_json(*host.topology);
  json["spare"] = facts::render_cpu_list(plan.binding.spare);
  json["not_allowed"] = not_allowed(host);
  return json;
}

Json worker_binding_json(const facts::Binding& binding, const facts::HostFacts& host) {
  if (binding == facts::Binding{}) return {};
  Json json;
  json["cpus"] = facts::render_cpu_list(binding.cpus);
  json["cores"] = host.topology ? Json(count_cores(binding.cpus, *host.topology)) : Json();
  json["memory_nodes"] = binding.memory_nodes;
  json["memory_policy"] =
      std::array{"untouched", "preferred", "bind"}.at(static_cast<std::size_t>(binding.policy));
  return json;
}

Json worker_gpus_json(const plan::PlannedWorker& worker, const facts::HostFacts& host) {
  Json gpus = Json::array();
  for (const int gpu : worker.gpus)
    gpus.push_back(unless_empty(host.gpus.at(static_cast<std::size_t>(gpu)).pci_address));
  return gpus;
}

}  // namespace ddprun::render
