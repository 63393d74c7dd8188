#include "plan/worker_env.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <set>

#include "allocation/detection/left_over.hpp"
#include "allocation/detection/started.hpp"
#include "base/text.hpp"
#include "facts/proc_text.hpp"
#include "output/output_options.hpp"
#include "placement/nearest_nic.hpp"
#include "plan/worker_command.hpp"
#include "plan/worker_count.hpp"

namespace ddprun::plan {

namespace {

bool stands_for_several_workers(const allocation::Allocation& allocation, int workers) {
  return workers > 1 && allocation.style.value != allocation::LaunchStyle::agent_per_task;
}

constexpr const char* k_workers_origin = "this worker's, not ddprun's";

class Changes {
 public:
  explicit Changes(std::vector<VariableChange> start) : list_(std::move(start)) {}
  void set(std::string name, std::string value, std::string origin) {
    list_.push_back({std::move(name), std::move(value), std::move(origin)});
  }
  void set(std::string name, int value, std::string origin) {
    set(std::move(name), fmt::format("{}", value), std::move(origin));
  }
  void replace(const std::string& name, const std::string& value, const char* origin) {
    std::erase_if(list_, [&](const VariableChange& each) { return each.name == name; });
    set(name, value, origin);
  }
  void set_proven(std::string name, std::string value) {
    list_.push_back({std::move(name), std::move(value), "proven between the hosts", true});
  }
  void remove(std::string name, std::string origin) {
    list_.push_back({std::move(name), std::nullopt, std::move(origin)});
  }
  void set_default(const facts::Environment& environment, const std::string& name, std::string value,
                   std::string origin) {
    if (!environment.contains(name)) set(name, std::move(value), std::move(origin));
  }
  // Returns the value for the worker so far; empty: not set, or set to nothing.
  std::string value(const facts::Environment& environment, const std::string& name) const {
    const auto change = std::find_if(list_.rbegin(), list_.rend(),
                                     [&](const VariableChange& each) { return each.name == name; });
    if (change != list_.rend()) return change->value.value_or("");
    return facts::variable_or_empty(environment, name.c_str());
  }
  // Returns the names that were set and not removed again.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const VariableChange& change : list_) {
      if (change.value) names.push_back(change.name);
    }
    return names;
  }
  const std::vector<VariableChange>& list() const { return list_; }
  std::vector<VariableChange> take() { return std::move(list_); }

 private:
  std::vector<VariableChange> list_;
};

// Gives scripts that set themselves up from Slurm's numbers those of the worker instead of the agent's.
void rewrite_slurm_numbers(Changes& changes, const Assignment& assignment, const RankAssignment& assigned,
                           const facts::Environment& environment) {
  const auto set = [&](const char* name, std::string value) {
    if (environment.contains(name)) changes.set(name, std::move(value), k_workers_origin);
  };
  std::vector<std::string> ranks;
  for (const RankAssignment& each : assignment.workers) ranks.push_back(fmt::format("{}", each.rank.value));
  set("SLURM_GTIDS", join(ranks, ","));
  for (const char* name : {"SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"}) {
    if (!assignment.workers_of_nodes.empty())
      set(name, assignment.workers_of_nodes);
    else if (environment.contains(name))
      changes.remove(name, k_workers_origin);
  }
  const std::pair<const char*, int> numbers[] = {{"SLURM_PROCID", assigned.rank.value},
                                                 {"SLURM_LOCALID", assigned.local_rank.value},
                                                 {"SLURM_NTASKS", assignment.world_size},
                                                 {"SLURM_NPROCS", assignment.world_size},
                                                 {"SLURM_STEP_NUM_TASKS", assignment.world_size},
                                                 {"SLURM_NTASKS_PER_NODE", assignment.local_world_size}};
  for (const auto& [name, value] : numbers) {
    set(name, fmt::format("{}", value));
  }
}

// Removes the launcher's variables: another agent has several workers, so this one's number is not its only
// worker's rank either.
void remove_launcher_variables(Changes& changes, const facts::Environment& environment) {
  for (const auto& [name, value] : environment) {
    if (allocation::is_launcher_variable(name)) changes.remove(name, "ddprun's, not a worker's");
  }
}

void set_ranks(Changes& changes, const LaunchPlan& plan, const RankAssignment& assigned,
               const DeviceView& view) {
  const Assignment& assignment = plan.assignment;
  const bool per_task = plan.node->allocation.style.value == allocation::LaunchStyle::agent_per_task;
  changes.set("RANK", assigned.rank.value, plan.node->rank_origin);
  changes.set("LOCAL_RANK", view.virtual_rank ? 0 : assigned.local_rank.value,
              view.virtual_rank ? view.origin
              : per_task        ? plan.node->allocation.task_local.origin
                                : "order on this host");
  changes.set("WORLD_SIZE", assignment.world_size, plan.node->world_size.origin);
  changes.set("LOCAL_WORLD_SIZE", assignment.local_world_size,
              per_task ? tasks_origin(plan.node->allocation) : plan.node->workers.origin);
  changes.set("GROUP_RANK", assignment.node.value, allocation::node_rank_of(plan.node->allocation).origin);
  changes.set("GROUP_WORLD_SIZE", assignment.node_count, plan.node->allocation.hosts.origin);
  changes.set("ROLE_NAME", plan.node->options.role.value, plan.node->options.role.origin);
  changes.set("ROLE_RANK", assigned.role_rank, "order of ranks within the role");
  changes.set("ROLE_WORLD_SIZE", assigned.role_world_size, "workers of the same role");
}

void set_master(Changes& changes, const LaunchPlan& plan) {
  const Assignment& assignment = plan.assignment;
  const bool solo = plan.node->rendezvous.agents == 1;
  const auto& port = plan.node->allocation.first_port;
  changes.set("MASTER_ADDR", assignment.master_address, solo ? plan.node->solo_address.origin : "rendezvous");
  changes.set("MASTER_PORT", assignment.master_port,
              port && port->value == assignment.master_port ? port->origin : "chosen at the start");
}

void set_elastic(Changes& changes, const LaunchPlan& plan, const WorkerContext& context) {
  const Assignment& assignment = plan.assignment;
  const bool by_worker = worker_hosts_store(plan.node->options, assignment.world_size);
  changes.set("TORCHELASTIC_RESTART_COUNT", assignment.attempt.value, "attempt of the whole world");
  changes.set("TORCHELASTIC_MAX_RESTARTS", plan.node->options.max_restarts.value,
              plan.node->options.max_restarts.origin);
  changes.set("TORCHELASTIC_RUN_ID", assignment.run_id, plan.node->run_id.origin);
  changes.set("TORCHELASTIC_USE_AGENT_STORE", by_worker ? "False" : "True",
              by_worker ? "rank 0 hosts the store" : "ddprun hosts the store");
  changes.set(
      "TORCHELASTIC_ERROR_FILE", context.error_file,
      output::keeps_error_files(plan.node->options.output) ? "the folder of the logs" : "temporary folder");
  if (!context.timer_file.empty())
    changes.set("TORCHELASTIC_TIMER_FILE", context.timer_file, "TORCHELASTIC_ENABLE_FILE_TIMER");
  std::vector<std::string> names;
  for (const int signal : plan.node->options.stop_signals.value)
    names.push_back(options::signal_name(signal));
  if (names.empty()) names = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"};
  changes.set("TORCHELASTIC_SIGNALS_TO_HANDLE", join(names, ","), plan.node->options.stop_signals.origin);
}

// Sets the interfaces: the user's word, then the site's if its interface is here, then the one that the hosts
// met by. Gloo would otherwise publish whatever the host's own name resolves to, often 127.0.1.1.
void set_interfaces(Changes& changes, const LaunchPlan& plan, const facts::Environment& environment,
                    const std::string& proven) {
  if (plan.assignment.node_count < 2 && proven.empty()) return;
  for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const auto at_site = plan.node->site.interfaces.find(name);
    if (at_site != plan.node->site.interfaces.end()) {
      changes.set_default(environment, name, at_site->second, plan.node->site.as_origin());
    } else if (!proven.empty()) {
      // NCCL takes a bare name for the beginning of one: eth1 would be eth10 too.
      const bool prefix = std::string_view(name).starts_with("NCCL");
      if (!environment.contains(name)) changes.set_proven(name, prefix ? "=" + proven : proven);
    }
  }
}

void show_devices(Changes& changes, const LaunchPlan& plan, const DeviceView& view,
                  const facts::Environment& environment) {
  const auto seen = environment.find(plan.node->device_variable);
  if (view.entries.empty() || (seen != environment.end() && seen->second == view.entries)) return;
  changes.set(plan.node->device_variable, view.entries, view.origin);
}

// Sets the network card; the user's word and the site's count for more.
void set_card(Changes& changes, const LaunchPlan& plan, const PlannedWorker& worker,
              const facts::Environment& environment) {
  if (worker.network_card.empty()) return;
  const placement::CardVariable variable = placement::card_variable(worker.network_card);
  if (plan.node->site.profile.environment.contains(variable.name)) return;
  changes.set_default(environment, variable.name, variable.value, plan.node->options.nic.origin);
}

void set_places(Changes& changes, const PlannedWorker& worker, const facts::Environment& environment) {
  if (worker.omp_places.empty()) return;
  changes.set_default(environment, "OMP_PLACES", worker.omp_places, "--omp-places");
  changes.set_default(environment, "OMP_PROC_BIND", "close", "--omp-places");
}

constexpr const char* k_reports_origin = "hang reports; off: --no-inspect";

// Sets DDPRUN_INSPECT, or removes that of another ddprun: a worker that started this ddprun would be looked
// into in the place of ours.
void set_inspection(Changes& changes, const facts::Environment& environment, const WorkerContext& context) {
  if (!context.inspect_prefix.empty()) {
    changes.set("DDPRUN_INSPECT", context.inspect_prefix, k_reports_origin);
  } else if (environment.contains("DDPRUN_INSPECT")) {
    changes.remove("DDPRUN_INSPECT", "another ddprun's");
  }
}

// Puts the module on PYTHONPATH, after the list of what a submitted job drops is made: the rest of the
// variable is the user's.
void put_module_on_path(Changes& changes, const facts::Environment& environment,
                        const WorkerContext& context) {
  if (context.inspect_prefix.empty()) return;
  const std::string users = changes.value(environment, "PYTHONPATH");
  changes.set("PYTHONPATH", context.inspection_folder + (users.empty() ? "" : ":" + users), k_reports_origin);
}

bool has_gpus_of(const NodeProposal& node, const std::string& vendor) {
  return std::ranges::any_of(node.gpus, [&](const facts::Gpu& gpu) { return gpu.vendor == vendor; });
}

// Sets torch's flight recorder, the latest collectives in memory, and where NCCL's (and RCCL's) are written
// to. The second name of each is that of older torch. torch 2.10 and 2.11 record gloo's only with a size.
void set_flight_recorder(Changes& changes, const LaunchPlan& plan, const facts::Environment& environment,
                         const WorkerContext& context) {
  if (!plan.node->options.hang.inspect.value) return;
  const auto set = [&](const char* name, const std::string& value) {
    changes.set_default(environment, name, value, k_reports_origin);
  };
  const bool on_gpus = has_gpus_of(*plan.node, "nvidia") || has_gpus_of(*plan.node, "amd");
  if (on_gpus || !context.inspect_prefix.empty()) set("TORCH_FR_BUFFER_SIZE", "2000");
  if (!on_gpus) return;
  set("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000");
  for (const char* name : {"TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT"}) set(name, "1");
  // NCCL's own port would be that of all jobs on the host.
  if (!context.ras_address.empty()) set("NCCL_RAS_ADDR", context.ras_address);
  if (context.flight_record.empty()) return;
  for (const char* name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"})
    set(name, context.flight_record);
}

// Points paths of the shared file system that are on this host too (--stage) at the copies.
void point_at_copies(Changes& changes, const LaunchPlan& plan, const facts::Environment& environment) {
  if (plan.staged.empty()) return;
  std::vector<std::string> copies;
  for (const staging::Mapping& mapping : plan.staged) copies.push_back(mapping.copy);
  for (const char* name : k_staged_variables) {
    const std::string before = changes.value(environment, name);
    const std::string after = staging::map_path_list(before, plan.staged);
    if (after != before) changes.set(name, after, k_stage_origin);
  }
  changes.set("DDPRUN_STAGED", join(copies, ":"), k_stage_origin);
}

// Sets all three or removes those of a ddprun that this one is a worker of.
void set_checkpoints(Changes& changes, const CheckpointPlace& place, const facts::Environment& environment) {
  const auto set = [&](const char* name, const std::string& value) {
    if (!value.empty()) changes.set(name, value, k_checkpoint_origin);
    if (value.empty() && environment.contains(name)) changes.remove(name, "another ddprun's");
  };
  set("DDPRUN_CHECKPOINTS", place.folder);
  set("DDPRUN_CHECKPOINT_SOCKET", place.socket);
  set("DDPRUN_CHECKPOINT_STEP", place.step ? std::to_string(*place.step) : "");
}

void carry_into_container(Changes& changes, const LaunchPlan& plan, const facts::Environment& environment) {
  const options::Container& container = plan.node->options.container;
  if (container.kind != options::ContainerKind::prefixed) return;
  for (const std::string& name : carried_names(changes.list(), environment))
    changes.set(container.prefix + name, changes.value(environment, name), container.origin);
}

// Removes the variables that connect this agent to the ddprun that started it, and to the others: a worker
// that started a ddprun would pass them on.
void cut_from_front_end(Changes& changes, const facts::Environment& environment, bool several_programs) {
  for (const auto& [name, value] : environment) {
    const bool proof = name == allocation::k_secret_variable || name == allocation::k_front_end_key_variable;
    if (proof && several_programs) continue;  // the worker's own ddpruns prove themselves by it
    const bool ours = allocation::is_front_end_variable(name) || name == allocation::k_secret_variable;
    if (ours) changes.remove(name, "ddprun's, not a worker's");
  }
  const auto cpus = environment.find(allocation::k_cpus_per_task_variable);
  if (cpus != environment.end()) changes.set("SLURM_CPUS_PER_TASK", cpus->second, "the job's");
}

}  // namespace

std::vector<VariableChange> scrub_changes(const facts::Environment& environment,
                                          const allocation::Allocation& allocation, int workers,
                                          bool key_value_space_used) {
  std::vector<VariableChange> changes;
  if (!stands_for_several_workers(allocation, workers) && !key_value_space_used) return changes;
  for (const auto& [name, value] : environment) {
    if (allocation::is_launcher_variable(name))
      changes.push_back({name, std::nullopt, "ddprun's, not a worker's"});
  }
  return changes;
}

bool worker_hosts_store(const options::Options& options, int world_size) {
  if (options.several_programs) return false;  // their nodes meet in it, also a single one
  return options.store == options::StoreHost::worker || world_size == 1;
}

bool is_inspected(const options::Options& options, const std::vector<std::string>& command,
                  const facts::Environment& environment) {
  const auto autoload = environment.find("TORCH_DEVICE_BACKEND_AUTOLOAD");
  if (autoload != environment.end() && autoload->second != "1") return false;
  return options.hang.inspect.value && starts_python(command) && takes_python_path(command);
}

bool asks_nccl_ras(const NodeProposal& node) {
  return node.options.hang.inspect.value && has_gpus_of(node, "nvidia");
}

std::vector<VariableChange> make_worker_changes(const LaunchPlan& plan, const facts::Environment& environment,
                                                const WorkerContext& context) {
  const Assignment& assignment = plan.assignment;
  const RankAssignment& assigned = assignment.workers.at(context.worker);
  const PlannedWorker& worker = plan.planned.at(context.worker);
  Changes changes(plan.node->changes);
  set_ranks(changes, plan, assigned, worker.view);
  set_master(changes, plan);
  set_elastic(changes, plan, context);
  if (assignment.several_workers) {
    rewrite_slurm_numbers(changes, assignment, assigned, environment);
    if (plan.node->workers.value == 1) remove_launcher_variables(changes, environment);
  }
  if (plan.threads.value > 0) changes.set("OMP_NUM_THREADS", plan.threads.value, plan.threads.origin);
  changes.set_default(environment, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", "torchrun's default");
  // Into a pipe a python writes blocks of 8 KiB, and a killed one the last of them never.
  changes.set_default(environment, "PYTHONUNBUFFERED", "1", "unbuffered output");
  // Into a pipe a progress bar is drawn for 80 columns otherwise.
  if (context.columns > 0)
    changes.set_default(environment, "COLUMNS", std::to_string(context.columns), "the terminal's width");
  for (const auto& [name, value] : plan.node->site.profile.environment) {
    changes.set_default(environment, name, value, plan.node->site.as_origin());
  }
  set_interfaces(changes, plan, environment, context.interface);
  show_devices(changes, plan, worker.view, environment);
  set_card(changes, plan, worker, environment);
  set_places(changes, worker, environment);
  cut_from_front_end(changes, environment, plan.node->options.several_programs);
  for (const auto& [name, value] : plan.node->options.program.environment)
    changes.replace(name, value, "--env");
  changes.set("DDPRUN_LAUNCH_ID", assignment.launch_id, "the same on all nodes");
  changes.set("DDPRUN_AGENT_ID", context.agent_id, "marks the processes of this agent");
  changes.set("DDPRUN_PROGRESS_FILE", context.progress_file, "temporary folder");
  set_inspection(changes, environment, context);
  if (!context.local_store.empty()) {
    changes.set("DDPRUN_STORE", context.local_store, "relay to the store; off: --store flat");
  } else if (environment.contains("DDPRUN_STORE")) {
    changes.remove("DDPRUN_STORE", "another ddprun's");
  }
  set_flight_recorder(changes, plan, environment, context);
  point_at_copies(changes, plan, environment);
  set_checkpoints(changes, plan.checkpoints, environment);
  changes.set(allocation::k_worker_list_variable, allocation::make_worker_list(environment, changes.names()),
              "variables that submitted jobs drop");
  put_module_on_path(changes, environment, context);
  carry_into_container(changes, plan, environment);
  return changes.take();
}

std::vector<std::string> carried_names(const std::vector<VariableChange>& changes,
                                       const facts::Environment& environment) {
  std::set<std::string> names;
  for (const auto& [name, value] : environment) {
    if (options::enters_container(name)) names.insert(name);
  }
  for (const VariableChange& change : changes) {
    if (change.value || change.open) {
      names.insert(change.name);
    } else {
      names.erase(change.name);
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> command_to_start(const LaunchPlan& plan, std::size_t worker,
                                          const std::vector<VariableChange>& changes,
                                          const facts::Environment& environment) {
  const options::Container& container = plan.node->options.container;
  const std::vector<std::string> command = point_command(plan, plan.planned.at(worker).command);
  if (container.kind != options::ContainerKind::by_option) return command;
  return options::name_variables(container, command, carried_names(changes, environment));
}

facts::Environment apply_changes(facts::Environment environment, const std::vector<VariableChange>& changes) {
  for (const VariableChange& change : changes) {
    if (change.value) {
      environment[change.name] = *change.value;
    } else {
      environment.erase(change.name);
    }
  }
  return environment;
}

std::vector<std::string> make_environment_strings(const facts::Environment& environment) {
  std::vector<std::string> strings;
  strings.reserve(environment.size());
  for (const auto& [name, value] : environment) strings.push_back(name + "=" + value);
  return strings;
}

namespace {

constexpr std::chrono::seconds k_default_kill{1};
constexpr std::chrono::seconds k_own_end{5};  // for the last kill and the report

std::chrono::seconds kill_timeout(const facts::Snapshot& snapshot) {
  for (const char* name : {"OMPI_MCA_odls_base_sigkill_timeout", "PRTE_MCA_odls_base_sigkill_timeout"}) {
    const auto set = facts::find_variable(snapshot, name);
    if (const auto seconds = set ? parse_integer(*set) : std::nullopt) return std::chrono::seconds(*seconds);
  }
  return k_default_kill;
}

}  // namespace

std::optional<allocation::Notice> find_bound_agent(const NodeProposal& node,
                                                   const facts::Snapshot& snapshot) {
  const bool bound = facts::find_variable(snapshot, "OMPI_MCA_orte_bound_at_launch") == "1";
  const std::vector<int>& own = snapshot.host.allowed_cpus;
  const bool part = snapshot.host.topology && own.size() < facts::all_cpus(*snapshot.host.topology).size();
  if (!bound || !part || node.allocation.style.value != allocation::LaunchStyle::agent_per_node)
    return std::nullopt;
  return allocation::Notice{fmt::format("Open MPI bound ddprun on {} to CPU {}, and all its workers with it",
                                        node.host, facts::render_cpu_list(own)),
                            "add --bind-to none to the command line of mpirun"};
}

std::optional<allocation::Notice> find_early_kill(const facts::Snapshot& snapshot, Milliseconds grace) {
  // mpirun is not signalled where the ddprun that started it speaks to the agents itself.
  const bool by_mpirun = facts::find_variable(snapshot, "OMPI_COMM_WORLD_SIZE") &&
                         !facts::find_variable(snapshot, allocation::k_front_end_variable);
  const std::chrono::seconds kill = kill_timeout(snapshot);
  if (!by_mpirun || kill >= grace) return std::nullopt;
  return allocation::Notice{
      fmt::format(
          "Open MPI kills its processes {} after a stop signal, within the {} that workers have to save",
          describe_duration(kill), describe_duration(grace)),
      fmt::format("mpirun --mca odls_base_sigkill_timeout {}",
                  std::chrono::ceil<std::chrono::seconds>(grace).count() + k_own_end.count())};
}

}  // namespace ddprun::plan
