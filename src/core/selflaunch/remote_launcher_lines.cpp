#include "selflaunch/remote_launcher_lines.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "allocation/detection/left_over.hpp"
#include "allocation/detection/started.hpp"
#include "allocation/hostlist.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "placement/devices.hpp"

namespace ddprun::selflaunch {

namespace {

using Words = std::vector<std::string>;

void name_hosts(SelfLaunchPlan& plan) {
  set_variable(plan, allocation::k_started_hosts_variable, allocation::compress_hostlist(plan.hosts),
               plan.allocation.hosts.origin);
  set_variable(plan, allocation::k_started_job_variable, allocation::describe_job(plan.allocation),
               plan.allocation.job_id.origin);
  set_variable(plan, allocation::k_started_remote_launcher_variable, plan.remote_launcher.value,
               plan.remote_launcher.origin);
}

std::string count(const SelfLaunchPlan& plan) { return std::to_string(plan.hosts.size()); }

std::string first_word_of_version(const facts::ProgramFacts& program) { return to_lower(program.version); }

// Returns the line of the node file by which the Task Manager knows this host's first slot.
std::size_t line_of(const facts::Snapshot& snapshot, const std::string& host, std::size_t otherwise) {
  const auto path = facts::find_variable(snapshot, "PBS_NODEFILE");
  const auto file = path ? snapshot.files.find(*path) : snapshot.files.end();
  if (file == snapshot.files.end()) return otherwise;
  const Words lines = split_words(file->second);
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [&](const std::string& line) { return same_host(line, host); });
  return found == lines.end() ? otherwise : static_cast<std::size_t>(found - lines.begin());
}

// Refuses devices that the scheduler chose for this host. Elsewhere the same numbers may be another job's
// GPUs, and ssh starts outside of all that would show it.
void refuse_granted_devices(const SelfLaunchPlan& plan, const facts::Snapshot& snapshot) {
  const std::string jobs = allocation::name_jobs(snapshot.environment);
  const placement::VisibleDevices devices = placement::find_visible_devices(snapshot);
  const auto other = std::find_if(plan.hosts.begin(), plan.hosts.end(), [&](const std::string& host) {
    return !same_host(host, snapshot.host.name);
  });
  if (jobs.empty() || devices.variable.empty() || devices.entries.empty() || other == plan.hosts.end())
    return;
  throw UsageError(
      fmt::format("{}={} are the GPUs of {} on {}; ssh does not show which GPUs it has on {}",
                  devices.variable, join(devices.entries, ","), jobs, snapshot.host.name, *other),
      fmt::format("let the scheduler start ddprun (leave out --launcher ssh, --hosts and --hostfile); if the "
                  "job has whole nodes, unset {}",
                  devices.variable));
}

}  // namespace

const std::string& own_file(const facts::Snapshot& snapshot) {
  static const std::string k_unknown = "ddprun";
  const auto found = snapshot.programs.find("ddprun");
  return found == snapshot.programs.end() || found->second.path.empty() ? k_unknown : found->second.path;
}

std::vector<std::string> with_arguments(std::vector<std::string> words, const facts::Snapshot& snapshot) {
  words.push_back(own_file(snapshot));
  words.insert(words.end(), snapshot.arguments.begin(), snapshot.arguments.end());
  return words;
}

Words with_launcher_args(const SelfLaunchPlan& plan, Words words) {
  words.insert(words.end(), plan.launcher_args.value.begin(), plan.launcher_args.value.end());
  return words;
}

void set_variable(SelfLaunchPlan& plan, const char* name, std::string value, std::string origin) {
  plan.changes.push_back({name, std::move(value), std::move(origin)});
}

Mpiexec tell_mpiexec(const facts::ProgramFacts& program) {
  const std::string version = first_word_of_version(program);
  const auto says = [&](const char* text) { return version.find(text) != std::string::npos; };
  if (says("hydra") || says("intel(r) mpi")) return Mpiexec::hydra;
  if (says("openrte") || says("open mpi") || says("prrte")) return Mpiexec::open_mpi;
  if (says("pals") || program.path.find("/pals/") != std::string::npos) return Mpiexec::pals;
  return Mpiexec::unknown;
}

// Reports whether it is OpenPBS' mpiexec: a script that hands over to a program which only sites with SGI's
// MPI have; its own version is that of PBS.
bool is_of_openpbs(const facts::ProgramFacts& program) {
  return first_word_of_version(program).find("pbs_version") != std::string::npos;
}

bool knows_pbs(const facts::ProgramFacts& program) {
  const std::string version = first_word_of_version(program);
  switch (tell_mpiexec(program)) {
    case Mpiexec::pals:
      return true;
    case Mpiexec::hydra:
      return version.find("pbs") != std::string::npos || version.find("intel") != std::string::npos;
    case Mpiexec::open_mpi:  // os/capture adds the launch modules that ompi_info names
      return version.find("mca plm: tm") != std::string::npos;
    case Mpiexec::unknown:
      break;
  }
  return false;
}

void use_mpiexec(SelfLaunchPlan& plan, const options::Options&, const facts::Snapshot& snapshot) {
  name_hosts(plan);
  const auto program = snapshot.programs.find("mpiexec");
  const Mpiexec kind = program == snapshot.programs.end() ? Mpiexec::unknown : tell_mpiexec(program->second);
  if (kind == Mpiexec::open_mpi) {
    plan.task = TaskWay::lifeline;
    Words words = with_launcher_args(
        plan, {"mpiexec", "-n", count(plan), "--map-by", "ppr:1:node", "--bind-to", "none", "-x",
               allocation::k_front_end_variable, "-x", allocation::k_front_end_key_variable});
    words.insert(words.end(), {own_file(snapshot), allocation::k_started_by_option, k_front_end_word});
    plan.commands = {{{}, std::move(words), false}};
  } else if (kind == Mpiexec::pals) {
    plan.commands = {{{},
                      with_arguments(with_launcher_args(plan, {"mpiexec", "-n", count(plan), "--ppn", "1",
                                                               "--cpu-bind", "none"}),
                                     snapshot),
                      false}};
  } else if (kind == Mpiexec::hydra) {
    plan.commands = {{{},
                      with_arguments(with_launcher_args(plan, {"mpiexec", "-hosts", join(plan.hosts, ","),
                                                               "-ppn", "1", "-n", count(plan)}),
                                     snapshot),
                      false}};
  } else if (is_of_openpbs(program->second)) {
    throw Error("the mpiexec on PATH is that of OpenPBS, which only starts jobs of SGI's MPI",
                "leave out --launcher mpiexec, or load the MPI module of this site");
  } else {
    throw Error("the mpiexec on PATH is not supported: ddprun cannot start one process per node with it",
                "load the MPI module of this site, or choose another remote launcher, as in --launcher ssh");
  }
}

// Uses flux. One task a node has one core unless it is the node's only one (flux-run(1), --exclusive).
void use_flux(SelfLaunchPlan& plan, const options::Options&, const facts::Snapshot& snapshot) {
  set_variable(plan, allocation::k_started_remote_launcher_variable, plan.remote_launcher.value,
               plan.remote_launcher.origin);
  plan.commands = {
      {{},
       with_arguments(with_launcher_args(plan, {"flux", "run", fmt::format("--nodes={}", count(plan)),
                                                fmt::format("--ntasks={}", count(plan)), "--exclusive", "-o",
                                                "cpu-affinity=off", "-o", "gpu-affinity=off"}),
                      snapshot),
       false}};
}

void use_blaunch(SelfLaunchPlan& plan, const options::Options&, const facts::Snapshot& snapshot) {
  name_hosts(plan);
  plan.commands = {
      {{},
       with_arguments(with_launcher_args(plan, {"blaunch", "-z", join(plan.hosts, " ")}), snapshot),
       false}};
}

namespace {

Words with_host(Words words, const std::string& host) {
  words.push_back(host);
  return words;
}

// Adds one command a host, with these words before it, that asks its front end what to do.
template <class Line>
void start_by_lifeline(SelfLaunchPlan& plan, const facts::Snapshot& snapshot, const Line& line) {
  name_hosts(plan);
  plan.task = TaskWay::lifeline;
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    Words words = line(i);
    words.insert(words.end(),
                 {own_file(snapshot), allocation::k_started_by_option, k_front_end_word, std::to_string(i)});
    plan.commands.push_back({plan.hosts[i], std::move(words), false});
  }
}

// Adds one command a host, with the words of `line` before it; this host needs none. The task arrives by
// standard input.
template <class Line>
void start_by_input(SelfLaunchPlan& plan, const facts::Snapshot& snapshot, const Line& line) {
  name_hosts(plan);
  plan.task = TaskWay::input;
  const Words start{own_file(snapshot), allocation::k_started_by_option, "input"};
  for (const std::string& host : plan.hosts) {
    const bool here = same_host(host, snapshot.host.name);
    plan.commands.push_back({host, here ? start : line(host, start), true});
  }
}

}  // namespace

void use_pbsdsh(SelfLaunchPlan& plan, const options::Options&, const facts::Snapshot& snapshot) {
  plan.passes_exit_code = false;
  start_by_lifeline(plan, snapshot, [&](std::size_t i) {
    Words words =
        with_launcher_args(plan, {"pbsdsh", "-n", std::to_string(line_of(snapshot, plan.hosts[i], i))});
    words.emplace_back("--");
    return words;
  });
}

void use_pbs_tmrsh(SelfLaunchPlan& plan, const options::Options&, const facts::Snapshot& snapshot) {
  start_by_lifeline(plan, snapshot, [&](std::size_t i) {
    return with_host(with_launcher_args(plan, {"pbs_tmrsh"}), plan.hosts[i]);
  });
}

// Uses qrsh: Grid Engine's own daemon starts and ends it; needs control_slaves of the parallel environment.
void use_qrsh(SelfLaunchPlan& plan, const options::Options&, const facts::Snapshot& snapshot) {
  start_by_input(plan, snapshot, [&](const std::string& host, const Words& start) {
    Words words = with_host(with_launcher_args(plan, {"qrsh", "-inherit", "-V"}), host);
    words.insert(words.end(), start.begin(), start.end());
    return words;
  });
}

// Uses oarsh, a wrapper around ssh that enters the job's cpuset on the other host.
void use_oarsh(SelfLaunchPlan& plan, const options::Options&, const facts::Snapshot& snapshot) {
  start_by_input(plan, snapshot, [&](const std::string& host, const Words& start) {
    Words words = with_host(with_launcher_args(plan, {"oarsh", "-T", "-x"}), host);
    words.push_back(shell_quote(start));
    return words;
  });
}

// Uses the lifeline, since it is not known whether pjrsh passes standard input.
void use_pjrsh(SelfLaunchPlan& plan, const options::Options&, const facts::Snapshot& snapshot) {
  start_by_lifeline(plan, snapshot, [&](std::size_t i) {
    return with_host(with_launcher_args(plan, {"pjrsh"}), plan.hosts[i]);
  });
}

// Uses ssh without ControlMaster: a shared connection would outlive the ssh that is to end.
void use_ssh(SelfLaunchPlan& plan, const options::Options&, const facts::Snapshot& snapshot) {
  refuse_granted_devices(plan, snapshot);
  start_by_input(plan, snapshot, [&](const std::string& host, const Words& start) {
    Words words = with_launcher_args(plan, {"ssh", "-T", "-x"});
    words.insert(words.end(), {"-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ControlMaster=no",
                               "-o", "ControlPath=none", host, shell_quote(start)});
    return words;
  });
}

// srun as a remote launcher: one ddprun per node, with all that the job has there.

namespace {

using Words = std::vector<std::string>;

constexpr const char* k_host_file = "SLURM_HOSTFILE";  // srun takes it for its --nodelist

// Variables of a job that srun reads (src/srun/opt.c) and that shape a step of several tasks a node: one
// ddprun per node needs all of the node.
constexpr std::array<const char*, 24> k_shapes_of_steps{{"SLURM_NTASKS",
                                                         "SLURM_NPROCS",
                                                         "SLURM_NTASKS_PER_NODE",
                                                         "SLURM_NTASKS_PER_CORE",
                                                         "SLURM_NTASKS_PER_SOCKET",
                                                         "SLURM_NTASKS_PER_GPU",
                                                         "SLURM_NTASKS_PER_TRES",
                                                         "SLURM_GPUS",
                                                         "SLURM_GPUS_PER_TASK",
                                                         "SLURM_GPUS_PER_SOCKET",
                                                         "SLURM_GPU_BIND",
                                                         "SLURM_TRES_PER_TASK",
                                                         "SLURM_TRES_BIND",
                                                         "SLURM_CPUS_PER_GPU",
                                                         "SLURM_CPUS_PER_TASK",
                                                         "SRUN_CPUS_PER_TASK",
                                                         "SLURM_MEM_BIND",
                                                         "SLURM_DISTRIBUTION",
                                                         k_host_file,
                                                         "SLURM_HINT",
                                                         "SLURM_EXACT",
                                                         "SLURM_EXCLUSIVE",
                                                         "SLURM_THREADS_PER_CORE",
                                                         "SLURM_EXPORT_ENV"}};

void remove_variable(SelfLaunchPlan& plan, const facts::Snapshot& snapshot, const std::string& name,
                     const char* origin) {
  if (snapshot.environment.contains(name)) plan.changes.push_back({name, std::nullopt, origin});
}

// Returns the job's CPUs per task times its tasks on a node, if that is the same everywhere: in the units in
// which the job was granted, so that srun cannot find it too much. Without -c a step has all CPUs of the job
// anyway.
std::optional<std::int64_t> cpus_per_agent(const allocation::Variables& variables) {
  constexpr std::int64_t k_most = std::numeric_limits<std::uint16_t>::max();
  const auto each = variables.number("SLURM_CPUS_PER_TASK", 1, k_most);
  const auto tasks = variables.text("SLURM_TASKS_PER_NODE");
  if (!each || !tasks) return std::nullopt;
  const std::string first = tasks->value.substr(0, tasks->value.find('('));
  const auto number = parse_integer(first);
  if (!number || tasks->value.find(',') != std::string::npos || *number < 1) return std::nullopt;
  return each->value * *number;
}

void clear_way_for_srun(SelfLaunchPlan& plan, const facts::Snapshot& snapshot) {
  for (const char* name : k_shapes_of_steps) {
    remove_variable(plan, snapshot, name, "would change the layout of ddprun's step");
  }
  for (const auto& [name, value] : snapshot.environment) {
    if (name.starts_with("SLURM_CPU_BIND") || name.starts_with("SLURM_GPU_BIND_") ||
        name.starts_with("SLURM_MEM_BIND_"))
      plan.changes.push_back({name, std::nullopt, "of another step"});
  }
  if (const auto each = allocation::Variables(snapshot.environment).text("SLURM_CPUS_PER_TASK")) {
    set_variable(plan, allocation::k_cpus_per_task_variable, each->value, "restored for the workers");
  }
}

// Returns "a100:12" for "a100:1" times 12; nullopt for a list of several types.
std::optional<std::string> times(const std::string& request, std::int64_t factor) {
  if (request.find(',') != std::string::npos) return std::nullopt;
  const std::size_t colon = request.rfind(':');
  const std::string type = colon == std::string::npos ? "" : request.substr(0, colon + 1);
  const auto number = parse_integer(std::string_view(request).substr(type.size()));
  if (!number || *number < 1 || *number > 1024) return std::nullopt;
  return fmt::format("{}{}", type, *number * factor);
}

// Finds "gres/gpu:a100:1" or "gres/gpu=1" among the parts of SLURM_TRES_PER_TASK.
std::optional<std::string> gpus_among(const std::string& resources) {
  constexpr std::string_view k_gpu = "gres/gpu";
  for (const std::string& part : split(resources, ',')) {
    if (part.starts_with(k_gpu) && part.size() > k_gpu.size()) return part.substr(k_gpu.size() + 1);
  }
  return std::nullopt;
}

// Returns the job's tasks on its first `nodes` nodes.
std::optional<std::int64_t> tasks_on(const allocation::Variables& variables, std::size_t nodes) {
  const auto all = variables.number("SLURM_NTASKS", 1, std::numeric_limits<std::uint32_t>::max());
  const auto counts = variables.text("SLURM_TASKS_PER_NODE");
  if (!all || !counts) return all ? std::optional(all->value) : std::nullopt;
  const std::vector<int> each = allocation::expand_counts(counts->value, counts->origin);
  if (nodes >= each.size()) return all->value;
  const auto end = each.begin() + static_cast<std::ptrdiff_t>(nodes);
  return std::min(all->value, std::accumulate(each.begin(), end, std::int64_t{0}));
}

// Returns the GPUs to ask for. A step that asks for none gets those of the job, unless the job asked for them
// by task: then it gets them for its own number of tasks, one a node. So it asks for as many as the job was
// granted there.
std::optional<std::string> gpus_of_job(const allocation::Variables& variables, std::size_t nodes) {
  auto each = variables.text("SLURM_GPUS_PER_TASK");
  if (const auto resources = variables.text("SLURM_TRES_PER_TASK"); !each && resources) {
    if (auto gpus = gpus_among(resources->value)) each = sourced(std::move(*gpus), resources->origin);
  }
  const auto tasks = each ? tasks_on(variables, nodes) : std::nullopt;
  return tasks ? times(each->value, *tasks) : std::nullopt;
}

Words srun_options(const SelfLaunchPlan& plan, const facts::Snapshot& snapshot, std::size_t nodes) {
  const allocation::Variables variables(snapshot.environment);
  Words words{fmt::format("--nodes={}", nodes), fmt::format("--ntasks={}", nodes), "--ntasks-per-node=1"};
  const auto cpus = plan.allocation.components.value == 1 ? cpus_per_agent(variables) : std::nullopt;
  if (cpus) words.push_back(fmt::format("--cpus-per-task={}", *cpus));
  const auto gpus = plan.allocation.components.value == 1 ? gpus_of_job(variables, nodes) : std::nullopt;
  if (gpus) words.push_back("--gpus=" + *gpus);
  words.emplace_back("--cpu-bind=none");
  if (!variables.has("SLURM_MPI_TYPE")) words.emplace_back("--mpi=none");
  words.emplace_back("--export=ALL");
  if (plan.least_hosts) {  // one node that ends, by whatever, does not end the others
    words.insert(words.end(), {"--no-kill", "--kill-on-bad-exit=0", "--wait=0"});
  } else {
    words.emplace_back("--kill-on-bad-exit=1");
  }
  return words;
}

// Returns the order of SLURM_HOSTFILE, which a script sets for an order of its own: one ddprun a node, in the
// order in which it names them first. nullopt if it names other hosts than the job's, or none in a way that
// is read here.
std::optional<std::string> order_of_host_file(const SelfLaunchPlan& plan, const facts::Snapshot& snapshot) {
  const auto path = allocation::Variables(snapshot.environment).text(k_host_file);
  const auto contents = path ? snapshot.files.find(path->value) : snapshot.files.end();
  if (contents == snapshot.files.end()) return std::nullopt;
  try {
    const Words hosts = allocation::parse_node_file(contents->second, path->value).hosts;
    const auto& all = plan.hosts;
    if (std::is_permutation(hosts.begin(), hosts.end(), all.begin(), all.end(), same_host))
      return join(hosts, ",");
  } catch (const Error&) {
  }
  return std::nullopt;
}

void follow_host_file(Words& words, const SelfLaunchPlan& plan, const facts::Snapshot& snapshot) {
  if (const auto hosts = order_of_host_file(plan, snapshot))
    words.insert(words.end(), {"--distribution=arbitrary", "--nodelist=" + *hosts});
}

// Reports whether output is passed on unbuffered: slurmstepd keeps what has no line end, a prompt, until one
// comes; unbuffered it passes on what it has, at once and in portions, so that lines of two nodes may come to
// be mixed: for a person at a terminal, not for a file.
bool shows_prompts(const SelfLaunchPlan& plan, const facts::Snapshot& snapshot) {
  return snapshot.host.stdin_is_terminal && (plan.hosts.size() == 1 || snapshot.host.stdout_is_terminal);
}

std::size_t nodes_of_component(const facts::Snapshot& snapshot, int component) {
  const std::string name = fmt::format("SLURM_JOB_NODELIST_HET_GROUP_{}", component);
  const auto list = allocation::Variables(snapshot.environment).text(name);
  if (!list) throw Error(fmt::format("SLURM_HET_SIZE counts more components than {} is set for", name));
  return allocation::count_hostlist(list->value, name);
}

}  // namespace

void use_srun(SelfLaunchPlan& plan, const options::Options& options, const facts::Snapshot& snapshot) {
  const int components = plan.allocation.components.value;
  clear_way_for_srun(plan, snapshot);
  set_variable(plan, allocation::k_started_remote_launcher_variable, plan.remote_launcher.value,
               plan.remote_launcher.origin);
  if (components == 1) {
    Words words{"srun"};
    const Words more = with_launcher_args(plan, srun_options(plan, snapshot, plan.hosts.size()));
    words.insert(words.end(), more.begin(), more.end());
    follow_host_file(words, plan, snapshot);
    words.emplace_back("--input=0");
    if (shows_prompts(plan, snapshot)) words.emplace_back("--unbuffered");
    plan.commands = {{{}, with_arguments(std::move(words), snapshot), false}};
    return;
  }
  if (options.place.nodes && options.place.nodes->value != static_cast<int>(plan.hosts.size())) {
    throw UsageError(
        fmt::format("{} {} is less than the heterogeneous job {} has", options.place.nodes->origin,
                    options.place.nodes->value, plan.allocation.job_id.value),
        fmt::format("leave out {}, or start it with srun --het-group=...", options.place.nodes->origin));
  }
  Words words{"srun"};
  for (int component = 0; component < components; ++component) {
    if (component > 0) words.emplace_back(":");
    words.push_back(fmt::format("--het-group={}", component));
    const Words more =
        with_launcher_args(plan, srun_options(plan, snapshot, nodes_of_component(snapshot, component)));
    words.insert(words.end(), more.begin(), more.end());
    words = with_arguments(std::move(words), snapshot);
  }
  plan.commands = {{{}, std::move(words), false}};
}

}  // namespace ddprun::selflaunch
