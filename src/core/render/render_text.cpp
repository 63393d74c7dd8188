// render_text: the plan as a table.

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <set>

#include "allocation/hostlist.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "placement/assumed_topology.hpp"
#include "plan/finalise.hpp"
#include "plan/launch_nodes.hpp"
#include "plan/rendezvous_plan.hpp"
#include "plan/worker_command.hpp"
#include "plan/worker_count.hpp"
#include "plan/worker_env.hpp"
#include "plan/world_plan.hpp"
#include "render/node_layout.hpp"
#include "render/node_picture.hpp"
#include "render/render_plan.hpp"
#include "render/render_remote_launch.hpp"
#include "render/text_table.hpp"
#include "staging/tree.hpp"
#include "version_number.hpp"

namespace ddprun::render {

namespace {

constexpr std::size_t k_ports_shown = 8;

constexpr std::size_t k_addresses_shown = 4;

std::vector<std::string> host_names(const allocation::Allocation& allocation) {
  std::vector<std::string> names;
  for (const allocation::Host& host : allocation.hosts.value) names.push_back(host.name);
  return names;
}

// Describes the hosts; in a launch by hand the names of the others are unknown.
std::string hosts_text(const allocation::Allocation& allocation) {
  const std::size_t count = allocation.hosts.value.size();
  if (count == 0) return "set at the rendezvous";
  const bool unnamed = std::ranges::any_of(allocation.hosts.value,
                                           [](const allocation::Host& host) { return host.name.empty(); });
  const bool by_flags = allocation.scheduler.value == facts::Scheduler::manual && !allocation.place.known();
  if (unnamed || by_flags) return std::to_string(count);
  return fmt::format("{}: {}", count, allocation::compress_hostlist(host_names(allocation)));
}

// Returns "node 2 of 0-3", since a bare "2 of 4" leaves open where counting starts; empty if there is only
// one, and "node 2" if the number is not known (count 0).
std::string place_among(std::string_view what, int number, int count) {
  if (count == 0) return fmt::format("{}{}", what, number);
  return count == 1 ? "" : fmt::format("{}{} of 0-{}", what, number, count - 1);
}

void show_site(TextTable& table, const site::SitePlan& site) {
  if (!site.known()) return;
  table.row("site", fmt::format("{} ({})", site.profile.name, site.profile.source), site.origin);
  for (const std::string& note : site.profile.notes) table.row("", note);
}

// Describes the order of the hosts' ranks, unless it is the scheduler's.
void show_order(TextTable& table, const plan::NodeProposal& node) {
  if (!options::orders_by_network(node.options)) return;
  const plan::NetworkPlan& network = node.network;
  std::vector<std::string> hosts;
  for (const std::size_t agent : node.rendezvous.order) hosts.push_back(node.rendezvous.peers[agent]);
  table.row("order",
            hosts.empty() ? "set at the rendezvous, where all hosts say their places"
                          : allocation::compress_hostlist(hosts),
            node.options.order.origin);
  if (!hosts.empty() && !network.own.position)
    table.row("", fmt::format("a ring of all hosts leaves a switch {} times; {} in the scheduler's order",
                              network.crossings, network.crossings_before));
  const auto& [position, switches, domain] = network.own;
  if (!switches.empty()) table.row("switches", switches, network.origin);
  if (!domain.empty()) table.row("domain", domain, "NVML");
}

void show_allocation(TextTable& table, const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  const allocation::Allocation& allocation = plan.node->allocation;
  table.heading("where");
  table.row("scheduler", allocation::to_string(allocation.scheduler.value), allocation.scheduler.origin);
  if (allocation.place.known()) table.row("place", allocation.place.value, allocation.place.origin);
  if (!allocation.job_id.value.empty()) table.row("job", allocation.job_id.value, allocation.job_id.origin);
  if (!allocation.step_id.value.empty())
    table.row("step", allocation.step_id.value, allocation.step_id.origin);
  show_time_limit(table, allocation, plan.node->options.time_limit, snapshot);
  if (allocation.numbered_by_launcher)
    table.row("launcher", allocation.launcher.value, allocation.launcher.origin);
  table.row("launch",
            allocation::to_string(allocation.style.value) + (allocation.style_assumed ? " (assumed)" : ""),
            allocation.style.origin);
  table.row("hosts", hosts_text(allocation), allocation.hosts.origin);
  const auto node = allocation::node_rank_of(allocation);
  table.row("this host",
            plan.node->host + (node.value ? place_among(", node ", node.value->value,
                                                        static_cast<int>(allocation.hosts.value.size()))
                                          : std::string()),
            node.origin);
  show_order(table, *plan.node);
  if (allocation.style.value == allocation::LaunchStyle::agent_per_task) {
    table.row("this task", place_among("rank ", allocation.task_rank.value, allocation.task_count.value),
              allocation.task_rank.origin);
  }
  show_site(table, plan.node->site);
}

std::string first_peer(const plan::RendezvousPlan& rendezvous) {
  return rendezvous.peers.front().empty() ? "number 0" : rendezvous.peers.front();
}

std::string role_text(const plan::RendezvousPlan& rendezvous) {
  switch (rendezvous.role) {
    case plan::RendezvousRole::solo:
      return "not needed: this is the only ddprun";
    case plan::RendezvousRole::coordinator:
      return place_among("number ", 0, rendezvous.agents) + "; coordinates";
    case plan::RendezvousRole::member:
      if (rendezvous.by_arrival)
        return fmt::format("one of {}, numbered in order of arrival, shown as the next; {} coordinates",
                           rendezvous.agents, first_peer(rendezvous));
      return fmt::format("{}; {} coordinates",
                         place_among("number ", rendezvous.agent.value, rendezvous.agents),
                         first_peer(rendezvous));
  }
  return {};
}

std::string addresses_text(const std::vector<std::string>& addresses) {
  const std::size_t shown = std::min(addresses.size(), k_addresses_shown);
  std::string text = join({addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(shown)}, " ");
  if (addresses.size() > shown) text += fmt::format(" and {} more", addresses.size() - shown);
  return text;
}

std::string keys_text(const std::vector<allocation::JobSecret>& secrets) {
  std::vector<std::string> origins;
  for (const allocation::JobSecret& secret : secrets) origins.push_back(secret.origin);
  return join(origins, ", ");
}

std::string nodes_text(const options::Options& options) {
  const char* const late = options.grow.value == options::Grow::now          ? "join at once"
                           : options.grow.value == options::Grow::at_restart ? "join at a restart"
                                                                             : "are refused";
  return fmt::format("{} to {}; later ones {}", options.least_nodes->value, options.place.nodes->value, late);
}

// Describes the spares, by name if the names are known.
std::string spares_text(const plan::RendezvousPlan& rendezvous, const options::Options& options) {
  const std::vector<std::string> spares = plan::spare_hosts(rendezvous, options);
  const std::string names =
      spares.empty() ? std::to_string(options.spares.value) : allocation::compress_hostlist(spares);
  return plan::is_spare(rendezvous, options) ? names + ", this one too" : names;
}

std::string ports_text(const std::vector<int>& ports) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(ports.size(), k_ports_shown); ++i) {
    shown.push_back(std::to_string(ports[i]));
  }
  if (ports.size() > shown.size()) shown.push_back(fmt::format("and {} more", ports.size() - shown.size()));
  return join(shown, " ");
}

std::string store_text(const plan::LaunchPlan& plan) {
  if (plan::worker_hosts_store(plan.node->options, plan.node->world_size.value))
    return "hosted by the worker of rank 0";
  const std::string relays = plan::has_store_relays(*plan.node)
                                 ? ", with a relay on each other node, up to " +
                                       std::to_string(plan.node->options.store_tree.fan_out) + " below each"
                                 : "";
  return plan.node->rendezvous.agents == 1 ? "hosted by this ddprun"
         : plan.node->rendezvous.peers.front().empty()
             ? "hosted by ddprun number 0" + relays
             : "hosted by ddprun on " + plan.node->rendezvous.peers.front() + relays;
}

void show_rendezvous(TextTable& table, const plan::LaunchPlan& plan) {
  const plan::RendezvousPlan& rendezvous = plan.node->rendezvous;
  table.heading("rendezvous");
  table.row("this ddprun", role_text(rendezvous));
  if (rendezvous.role != plan::RendezvousRole::solo) {
    if (!rendezvous.addresses.value.empty())
      table.row("address", addresses_text(rendezvous.addresses.value), rendezvous.addresses.origin);
    if (rendezvous.key_value_space != allocation::KeyValueSpace::none)
      table.row("key-value", key_value_space_name(rendezvous.key_value_space),
                plan.node->allocation.launcher.value);
    if (!rendezvous.rendezvous_file.value.empty())
      table.row("file", rendezvous.rendezvous_file.value, rendezvous.rendezvous_file.origin);
    if (!rendezvous.secrets.empty()) table.row("key", "a secret of this job", keys_text(rendezvous.secrets));
    table.row(rendezvous.ports.value.size() == 1 ? "port" : "port, one of",
              ports_text(rendezvous.ports.value), rendezvous.ports.origin);
    if (const auto& least = plan.node->options.least_nodes)
      table.row("nodes", nodes_text(plan.node->options), least->origin);
    if (const Sourced<int>& spares = plan.node->options.spares; spares.value > 0)
      table.row("spares", spares_text(rendezvous, plan.node->options), spares.origin);
    table.row("join timeout", describe_duration(rendezvous.join_timeout),
              plan.node->options.join_timeout.origin);
    table.row("host timeout", "up to " + describe_duration(plan.node->options.host_timeout.value),
              plan.node->options.host_timeout.origin);
  }
  table.row("store", store_text(plan));
  if (plan.node->options.store_memory)
    table.row("store memory", facts::describe_bytes(plan.node->options.store_memory->value),
              plan.node->options.store_memory->origin);
}

void show_ranks(TextTable& table, const plan::LaunchPlan& plan, bool with_command) {
  for (std::size_t i = 0; i < std::min(plan.planned.size(), k_workers_shown); ++i) {
    const plan::PlannedWorker& worker = plan.planned[i];
    const std::string device = worker.device.empty() ? "" : ", device " + worker.device;
    table.row(fmt::format("rank {}", worker.rank.value),
              fmt::format("local rank {}{}", worker.local_rank.value, device));
    if (with_command) table.row("", shell_quote(worker.command));
  }
  if (plan.planned.size() > k_workers_shown) {
    table.row("",
              fmt::format("and {} more; --dry-run=json has them all", plan.planned.size() - k_workers_shown));
  }
}

void show_check(TextTable& table, const options::CheckOptions& check) {
  if (!check.command.value.empty())
    table.row(
        "check",
        fmt::format("{}, {} at most", shell_quote(check.command.value), describe_duration(check.limit.value)),
        check.command.origin);
  if (!check.on_failure.value.empty())
    table.row("on failure", shell_quote(check.on_failure.value), check.on_failure.origin);
}

void show_restarts(TextTable& table, const options::RestartOptions& restarts) {
  table.row("restart rule", std::string(options::name_of(restarts.rule.value)), restarts.rule.origin);
  if (restarts.rule.value == options::RestartRule::progress)
    table.row("min progress", describe_duration(restarts.min_progress.value), restarts.min_progress.origin);
  std::vector<std::string> codes;
  for (const int code : restarts.no_restart_on.value) codes.push_back(std::to_string(code));
  if (!codes.empty()) table.row("no restart", "on code " + join(codes, ", "), restarts.no_restart_on.origin);
  if (restarts.standby.value) {
    const bool each = restarts.standbys == SIZE_MAX;
    table.row("standby",
              fmt::format("a Python for {}, up to {}",
                          each ? "each worker" : fmt::format("{} workers of a node", restarts.standbys),
                          facts::describe_bytes(restarts.standby_memory.value)),
              restarts.standby.origin);
  }
  if (restarts.backoff.value == Milliseconds{0}) return;
  table.row("backoff",
            fmt::format("{}, doubling up to {}", describe_duration(restarts.backoff.value),
                        describe_duration(options::k_longest_backoff)),
            restarts.backoff.origin);
}

void show_workers(TextTable& table, const plan::LaunchPlan& plan) {
  const bool per_task = plan.node->allocation.style.value == allocation::LaunchStyle::agent_per_task;
  table.heading("workers");
  table.row("on this host", std::to_string(plan.node->local_world_size),
            per_task ? plan::tasks_origin(plan.node->allocation) : plan.node->workers.origin);
  table.row("total", std::to_string(plan.node->world_size.value), plan.node->world_size.origin);
  table.row("threads", plan.threads.value == 0 ? "as set" : fmt::format("{} each", plan.threads.value),
            plan.threads.origin);
  table.row("restarts", std::to_string(plan.node->options.max_restarts.value),
            plan.node->options.max_restarts.origin);
  show_check(table, plan.node->options.check);
  if (plan.node->options.max_restarts.value > 0) show_restarts(table, plan.node->options.restarts);
  table.row("shutdown", describe_duration(plan.node->options.shutdown_timeout.value) + ", then SIGKILL",
            plan.node->options.shutdown_timeout.origin);
  if (plan.planned.empty() || plan.planned.front().command.empty()) return show_ranks(table, plan, false);
  const auto differs = [&](const plan::PlannedWorker& worker) {
    return worker.command != plan.planned.front().command;
  };
  const bool one_command = std::ranges::none_of(plan.planned, differs);
  if (one_command) table.row("command", shell_quote(plan::point_command(plan, plan.planned.front().command)));
  show_ranks(table, plan, !one_command);
}

void show_stage(TextTable& table, const plan::LaunchPlan& plan) {
  const plan::RendezvousPlan& rendezvous = plan.node->rendezvous;
  if (plan.staged.empty()) return;
  table.heading("copies on each host");
  for (const staging::Mapping& mapping : plan.staged)
    table.row(mapping.sources.front(), mapping.copy, plan::k_stage_origin);
  if (rendezvous.agents > 1)
    table.row("read on",
              rendezvous.peers.front().empty() ? "the coordinator's host" : rendezvous.peers.front(),
              fmt::format("it alone; passed on in a tree, by each host to {}", staging::k_fan_out));
  table.row("afterwards", plan.node->options.stage.keep ? "kept for the next job" : "removed",
            plan.node->options.stage.keep ? "--stage-keep" : "default");
}

void show_checkpoints(TextTable& table, const options::CheckpointOptions& checkpoint) {
  if (!checkpoint.memory) return;
  table.heading("checkpoints in memory");
  table.row(checkpoint.folder, facts::describe_bytes(checkpoint.memory->value), checkpoint.memory->origin);
  const std::string every =
      checkpoint.flush_every ? "every " + describe_duration(*checkpoint.flush_every) + " and " : "";
  if (!checkpoint.flush.empty()) table.row("written to", checkpoint.flush, every + "at the end of the job");
  table.row("afterwards", checkpoint.keep ? "kept for the requeued job" : "removed",
            checkpoint.keep ? "--checkpoint-keep" : "default");
}

// Adds a row for each stream of the first workers; none if all is on the console as it comes.
void show_output(TextTable& table, const plan::LaunchPlan& plan) {
  if (!plan::directs_output(plan.node->options.output) || plan.planned.empty()) return;
  table.heading("output");
  for (std::size_t i = 0; i < std::min(plan.planned.size(), k_workers_shown); ++i) {
    const std::string output = plan::describe(plan::output_way(plan, i, output::Stream::output));
    const std::string error = plan::describe(plan::output_way(plan, i, output::Stream::error));
    const std::string rank = fmt::format("rank {}", plan.planned[i].rank.value);
    table.row(rank, output == error ? output : "stdout: " + output);
    if (output != error) table.row("", "stderr: " + error);
  }
}

std::string memory_text(const plan::LaunchPlan& plan) {
  std::set<facts::MemoryPolicy> policies;
  for (const plan::PlannedWorker& worker : plan.planned) policies.insert(worker.binding.policy);
  if (policies.size() != 1) return "differs";
  switch (*policies.begin()) {
    case facts::MemoryPolicy::untouched:
      return "not bound";
    case facts::MemoryPolicy::preferred:
      return "their own NUMA nodes first";
    case facts::MemoryPolicy::bind:
      return "their own NUMA nodes only";
  }
  return {};
}

std::string cores_text(const plan::LaunchPlan& plan) {
  if (plan.node->options.bind.mode == options::BindMode::none) return "not bound";
  return plan.binding.origin.empty() ? "not bound" : plan.binding.origin;
}

// Adds the binding. Without a topology there is nothing to draw, and nothing to say unless something was
// decided.
void show_binding(TextTable& table, const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  if (plan.planned.empty()) return;
  if (!snapshot.host.topology) {
    if (!plan.binding.origin.empty()) table.row("binding", cores_text(plan), plan.node->options.bind.origin);
    return;
  }
  table.heading("binding");
  table.row("cores", cores_text(plan), plan.node->options.bind.origin);
  table.row("memory", memory_text(plan), plan.node->options.memory_bind.origin);
  const std::string picture = draw_node_text(plan, snapshot);
  for (const std::string& line : split(trim(picture), '\n')) table.line(line);
}

void show_variables(TextTable& table, const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  if (plan.planned.empty()) return;
  const options::Container& container = plan.node->options.container;
  table.heading(fmt::format("variables of rank {}", plan.planned.front().rank.value), 31, 30);
  for (const plan::ExpectedVariable& variable : plan::expected_variables(plan, snapshot.environment, 0)) {
    const plan::VariableChange& change = variable.change;
    if (!container.prefix.empty() && change.name.starts_with(container.prefix)) continue;
    const std::string absent = variable.open.empty() ? "(removed)" : variable.open;
    table.row(change.name, change.value.value_or(absent), change.origin);
  }
  if (!container.prefix.empty())
    table.row(container.prefix + "...", "(the same, for the container)", container.origin);
}

}  // namespace

std::string key_value_space_name(allocation::KeyValueSpace key_value_space) {
  return key_value_space == allocation::KeyValueSpace::pmi1   ? "PMI"
         : key_value_space == allocation::KeyValueSpace::pmix ? "PMIx"
                                                              : "";
}

std::string render_text(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  TextTable table;
  const std::string& file = plan.node->options.snapshot_file;
  table.heading(fmt::format(
      "ddprun {}: what would happen on {}{}; nothing is started", DDPRUN_VERSION,
      placement::node_name(snapshot.host, plan.node->host),
      file.empty() ? ""
                   : fmt::format(", by its snapshot {}", printable(file.substr(file.rfind('/') + 1), 40))));
  show_allocation(table, plan, snapshot);
  show_rendezvous(table, plan);
  show_workers(table, plan);
  show_stage(table, plan);
  show_checkpoints(table, plan.node->options.checkpoint);
  show_output(table, plan);
  show_binding(table, plan, snapshot);
  show_variables(table, plan, snapshot);
  const std::vector<allocation::Notice> notices = plan::notices_of(plan);
  if (!notices.empty()) table.heading("notices");
  for (const allocation::Notice& notice : notices) {
    table.line(notice.what);
    if (!notice.hint.empty()) table.line("hint: " + notice.hint);
  }
  return table.text();
}

// render_shell: the variables as lines for the eval of a shell.

namespace {

// Reports whether a shell accepts the name as a variable's; the environment may hold other names, which no
// shell can unset.
bool is_shell_name(const std::string& name) {
  static constexpr const char* k_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  const bool digit_first = !name.empty() && name[0] >= '0' && name[0] <= '9';
  return !name.empty() && !digit_first && name.find_first_not_of(k_letters) == std::string::npos;
}

// Returns the value that all readers of these lines agree on without meeting.
std::optional<std::string> first_candidate(const std::string& name, const plan::RendezvousPlan& rendezvous) {
  if (name == "MASTER_ADDR" && !rendezvous.addresses.value.empty()) return rendezvous.addresses.value.front();
  if (name != "MASTER_PORT") return std::nullopt;
  const std::vector<int>& ports = rendezvous.ports.value;
  return std::to_string(ports.empty() ? plan::make_port_sequence(rendezvous.key, 1).front() : ports.front());
}

}  // namespace

std::optional<allocation::Notice> find_missing_ranks(const plan::LaunchPlan& plan) {
  const int workers = static_cast<int>(plan.planned.size());
  if (workers < 2) return std::nullopt;
  const int rank = plan.planned.front().rank.value;
  return allocation::Notice{fmt::format("these are the variables of rank {} alone, one of {} on {}: a script "
                                        "that joins the others waits for them, and nothing starts them",
                                        rank, count_of(workers, "worker"), plan.node->host),
                            "to train, ddprun SCRIPT; for one process per host, --nproc-per-node 1; a script "
                            "that starts its processes itself (mp.spawn) needs neither"};
}

std::string render_shell(const plan::LaunchPlan& plan, const facts::Snapshot& snapshot) {
  std::string lines;
  for (const auto& [change, open] : plan::expected_variables(plan, snapshot.environment, 0)) {
    if (!is_shell_name(change.name)) continue;
    std::optional<std::string> value =
        open.empty() ? change.value : first_candidate(change.name, plan.node->rendezvous);
    // No ddprun will be there to host the store.
    if (change.name == "TORCHELASTIC_USE_AGENT_STORE") value = "False";
    if (value) {
      lines += fmt::format("export {}={}\n", change.name, shell_quote(*value));
    } else if (open.empty()) {
      lines += fmt::format("unset {}\n", change.name);
    }
  }
  return lines;
}

}  // namespace ddprun::render
