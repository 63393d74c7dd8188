#include "selflaunch/remote_launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "allocation/asked_tasks.hpp"
#include "allocation/detection/detect.hpp"
#include "allocation/detection/started.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "options/shell_words.hpp"
#include "placement/devices.hpp"
#include "plan/worker_count.hpp"
#include "selflaunch/remote_launcher_lines.hpp"

namespace ddprun::selflaunch {

namespace {

struct RemoteLauncher {
  const char* name;     // name, also of its program
  facts::Scheduler of;  // Scheduler::none: any
  void (*use)(SelfLaunchPlan&, const options::Options&, const facts::Snapshot&);
};

constexpr std::array<RemoteLauncher, 10> k_remote_launchers{
    {{"srun", facts::Scheduler::slurm, use_srun},
     {"mpiexec", facts::Scheduler::none, use_mpiexec},
     {"pbsdsh", facts::Scheduler::pbs, use_pbsdsh},
     {"pbs_tmrsh", facts::Scheduler::pbs, use_pbs_tmrsh},
     {"ssh", facts::Scheduler::none, use_ssh},
     {"flux", facts::Scheduler::flux, use_flux},
     {"blaunch", facts::Scheduler::lsf, use_blaunch},
     {"qrsh", facts::Scheduler::sge, use_qrsh},
     {"oarsh", facts::Scheduler::oar, use_oarsh},
     {"pjrsh", facts::Scheduler::pjm, use_pjrsh}}};

// Returns the remote launchers of a scheduler's jobs, best first.
std::vector<std::string> usual_remote_launchers(facts::Scheduler scheduler) {
  const facts::SchedulerTraits* const traits = facts::find_traits(scheduler);
  if (traits == nullptr) return {"ssh"};
  const auto& names = traits->remote_launchers;
  return {names.begin(), std::find(names.begin(), names.end(), "")};
}

std::string usual_for(facts::Scheduler scheduler) {
  return scheduler == facts::Scheduler::manual
             ? "usual for hosts that you list"
             : fmt::format("usual under {}", allocation::to_string(scheduler));
}

const RemoteLauncher& find_remote_launcher(const std::string& name) {
  return *std::find_if(k_remote_launchers.begin(), k_remote_launchers.end(),
                       [&](const RemoteLauncher& remote_launcher) { return name == remote_launcher.name; });
}

const facts::ProgramFacts* find_executable(const facts::Snapshot& snapshot, const std::string& name) {
  const auto found = snapshot.programs.find(name);
  const bool there = found != snapshot.programs.end() && found->second.kind == facts::ProgramKind::executable;
  return there ? &found->second : nullptr;
}

bool is_usable(const std::string& name, const facts::Snapshot& snapshot) {
  const facts::ProgramFacts* const program = find_executable(snapshot, name);
  return program != nullptr && (name != "mpiexec" || knows_pbs(*program));
}

// Refuses a snapshot of an earlier ddprun, or one written by hand, that may know nothing of remote launchers.
void refuse_unknown_programs(const facts::Snapshot& snapshot, const std::vector<std::string>& programs) {
  const bool known = std::any_of(programs.begin(), programs.end(), [&](const std::string& program) {
    return snapshot.programs.contains(program);
  });
  if (known) return;
  throw Error(fmt::format("the snapshot does not show whether {} is on PATH", join(programs, " or ")),
              "capture it again with ddprun --capture FILE");
}

// Reports whether the launch needs no other host than this one.
bool needs_only_self(const SelfLaunchPlan& plan, const facts::Snapshot& snapshot) {
  return plan.hosts.size() == 1 && same_host(plan.hosts.front(), snapshot.host.name);
}

Sourced<std::string> choose_remote_launcher(const SelfLaunchPlan& plan, const options::Options& options,
                                            const facts::Snapshot& snapshot) {
  const facts::Scheduler scheduler = plan.allocation.scheduler.value;
  if (!options.remote_launcher.value.empty()) {
    const RemoteLauncher& remote_launcher = find_remote_launcher(options.remote_launcher.value);
    if (remote_launcher.of != facts::Scheduler::none && remote_launcher.of != scheduler) {
      throw UsageError(
          fmt::format("{} {} cannot start processes on {} ({})", options.remote_launcher.origin,
                      remote_launcher.name,
                      scheduler == facts::Scheduler::manual ? "hosts that you list" : "these hosts",
                      plan.allocation.hosts.origin),
          fmt::format("leave it out, or choose {}", join(usual_remote_launchers(scheduler), " or ")));
    }
    if (needs_only_self(plan, snapshot)) return options.remote_launcher;
    refuse_unknown_programs(snapshot, {remote_launcher.name});
    if (find_executable(snapshot, remote_launcher.name) == nullptr) {
      throw Error(fmt::format("{0} {1} cannot be used: {1} is not on PATH", options.remote_launcher.origin,
                              remote_launcher.name),
                  "load its module, or choose another remote launcher with --launcher");
    }
    return options.remote_launcher;
  }
  const std::vector<std::string> usual = usual_remote_launchers(scheduler);
  for (const std::string& name : usual) {
    if (is_usable(name, snapshot)) return {name, usual_for(scheduler)};
  }
  refuse_unknown_programs(snapshot, usual);
  throw Error(fmt::format("cannot start ddprun on the other hosts: no {} on PATH", join(usual, ", no ")),
              "load its module, or choose another remote launcher with --launcher");
}

std::vector<std::string> chosen_hosts(const allocation::Allocation& allocation,
                                      const options::Options& options) {
  std::vector<std::string> hosts;
  for (const allocation::Host& host : allocation.hosts.value) hosts.push_back(host.name);
  const bool fewer = options.place.nodes && options.place.nodes->value < static_cast<int>(hosts.size());
  if (fewer) hosts.resize(static_cast<std::size_t>(options.place.nodes->value));
  return hosts;
}

// Refuses a second start: started again and again, a launch that does not know its place would never come to
// its workers.
void refuse_second_start(const facts::Snapshot& snapshot) {
  if (facts::find_variable(snapshot, allocation::k_front_end_variable)) {
    throw Error(
        fmt::format("ddprun was started on {} by another ddprun, but its place in that launch is unknown",
                    snapshot.host.name),
        fmt::format(
            "if {} is left from an earlier launch, unset it; else choose another remote launcher with "
            "--launcher",
            allocation::k_front_end_variable));
  }
  if (facts::find_variable(snapshot, "DDPRUN_LAUNCH_ID")) {
    throw Error("ddprun was started by a worker of another ddprun and would start itself on all hosts again",
                "add --standalone to use this host alone");
  }
}

Sourced<int> expect_workers(const SelfLaunchPlan& plan, const options::Options& options,
                            const facts::Snapshot& snapshot) {
  if (!plan.allocation.node_index.known() && options.workers.kind != options::WorkersKind::number) {
    const bool named = !plan.hosts.front().empty();
    return {0, named ? "this host is not one of them" : "hosts are numbered when they start"};
  }
  allocation::Allocation there = plan.allocation;
  there.style.value = allocation::LaunchStyle::agent_per_node;
  return plan::count_workers(there, options, snapshot, placement::find_visible_devices(snapshot));
}

// Passes on the tasks that the script asked for, which the remote launcher's step or launch does not show.
void pass_asked_tasks(SelfLaunchPlan& plan, const options::Options& options,
                      const facts::Snapshot& snapshot) {
  if (!allocation::asks_for_several(plan.allocation)) return;
  const auto& asked = *plan.allocation.asked_tasks;
  set_variable(plan, allocation::k_started_tasks_variable, allocation::write_asked_tasks(asked.value),
               asked.origin);
  std::vector<int> tasks = allocation::asked_tasks_of_hosts(plan.allocation);
  tasks.resize(std::min(tasks.size(), plan.hosts.size() - static_cast<std::size_t>(plan.spares.value)));
  const bool decide = plan.workers.value > 0 &&
                      plan::is_for_tasks(plan.allocation, options, placement::find_visible_devices(snapshot));
  if (decide && std::ranges::adjacent_find(tasks, std::not_equal_to<>()) != tasks.end())
    plan.workers_of_nodes = std::move(tasks);
}

// Settles how many hosts have to take part. If the job continues without a host, its remote launcher has to
// do so too.
void settle_least_hosts(SelfLaunchPlan& plan, const options::Options& options) {
  if (!options::outlives_nodes(options)) return;
  const int hosts = static_cast<int>(plan.hosts.size());
  const int spares = options.spares.value;
  const int least = options.least_nodes ? options.least_nodes->value : std::max(1, hosts - spares);
  if (hosts - spares < least) {
    const std::string kept = spares == 0 ? "" : fmt::format(", {} of them spare", spares);
    throw UsageError(
        fmt::format("the job has {}{}, but at least {} must take part", count_of(hosts, "node"), kept, least),
        "ask for more nodes, or give fewer spares or a lower minimum with --nnodes");
  }
  plan.least_hosts = static_cast<std::size_t>(least);
  plan.spares = options.spares;
  const std::string& name = plan.remote_launcher.value;
  if (name != "mpiexec" && name != "flux") return;
  plan.notices.push_back({fmt::format("{} may end ddprun on all nodes when one node is lost", name),
                          "--launcher ssh, pbsdsh or srun keeps the others running"});
}

// Returns the exact line that starts one agent on every node of the allocation. -n is there because srun
// prefers the SLURM_NTASKS of the job to --ntasks-per-node; of a heterogeneous job each component brings its
// own nodes.
std::string srun_line(const allocation::Allocation& allocation, const options::Options& options,
                      const facts::Snapshot& snapshot) {
  std::vector<std::string> words{"srun"};
  if (allocation.components.value > 1) {
    words.push_back(fmt::format("--het-group=0-{}", allocation.components.value - 1));
  } else {
    const std::size_t hosts = allocation.hosts.value.size();
    const int nodes = options.place.nodes ? options.place.nodes->value : static_cast<int>(hosts);
    words.push_back(fmt::format("-N{}", nodes));
    words.push_back(fmt::format("-n{}", nodes));
  }
  words.emplace_back("--ntasks-per-node=1");
  if (allocation.cpus_on_node.value > 1) {
    words.push_back(fmt::format("-c{}", allocation.cpus_on_node.value));
  }
  words.emplace_back("ddprun");
  words.insert(words.end(), snapshot.arguments.begin(), snapshot.arguments.end());
  return shell_quote(words);
}

}  // namespace

const std::vector<std::string>& remote_launcher_names() {
  static const std::vector<std::string> k_names = [] {
    std::vector<std::string> names = all_remote_launcher_programs();
    names.emplace_back("none");
    return names;
  }();
  return k_names;
}

std::vector<std::string> remote_launcher_programs(const allocation::Allocation& allocation,
                                                  const options::Options& options) {
  if (options.remote_launcher.value.empty()) return usual_remote_launchers(allocation.scheduler.value);
  return {options.remote_launcher.value};
}

std::vector<std::string> all_remote_launcher_programs() {
  std::vector<std::string> programs;
  for (const RemoteLauncher& remote_launcher : k_remote_launchers)
    programs.emplace_back(remote_launcher.name);
  return programs;
}

std::optional<SelfLaunchPlan> make_self_launch_plan(const facts::Snapshot& snapshot,
                                                    const options::Options& options,
                                                    const allocation::Allocation& allocation) {
  if (options.remote_launcher.value == "none") return std::nullopt;
  SelfLaunchPlan plan;
  plan.allocation = allocation;
  if (plan.allocation.style.value != allocation::LaunchStyle::not_started) return std::nullopt;
  refuse_second_start(snapshot);
  plan.notices = plan.allocation.notices;
  plan.hosts = chosen_hosts(plan.allocation, options);
  plan.remote_launcher = choose_remote_launcher(plan, options, snapshot);
  settle_least_hosts(plan, options);
  plan.workers = expect_workers(plan, options, snapshot);
  plan.launcher_args = read_launcher_args(options, plan.remote_launcher.value);
  find_remote_launcher(plan.remote_launcher.value).use(plan, options, snapshot);
  pass_asked_tasks(plan, options, snapshot);
  return plan;
}

void refuse_unstarted(const allocation::Allocation& allocation, const options::Options& options,
                      const facts::Snapshot& snapshot) {
  if (allocation.style.value != allocation::LaunchStyle::not_started) return;
  const std::size_t nodes = allocation.hosts.value.size();
  const bool on_node = allocation.node_index.known();
  const std::string where = fmt::format("{}{}", snapshot.host.name,
                                        on_node      ? " alone"
                                        : nodes == 1 ? ", which is not that node"
                                                     : ", which is not one of them");
  const std::string hosts = count_of(static_cast<std::int64_t>(nodes), "node");
  if (options.dry_run == options::DryRun::env) {
    throw UsageError(
        fmt::format("--dry-run=env prints the variables of one worker, and nothing is started yet on the {} "
                    "of {}",
                    hosts, allocation.hosts.origin),
        fmt::format("run it in each task, as in {}; --dry-run alone shows how ddprun would start itself",
                    allocation.scheduler.value == facts::Scheduler::slurm
                        ? "srun sh -c 'eval \"$(ddprun --dry-run=env)\" && python train.py'"
                        : "sh -c 'eval \"$(ddprun --dry-run=env)\" && python train.py'"));
  }
  if (allocation.scheduler.value == facts::Scheduler::manual) {
    throw UsageError(
        fmt::format("{} names {}, but ddprun was started on {}", allocation.hosts.origin, hosts, where),
        "leave out --launcher none to let ddprun start itself there");
  }
  throw Error(fmt::format("job {} has {}, but ddprun was started on {}, outside any step of it",
                          allocation.job_id.value, hosts, where),
              allocation.scheduler.value == facts::Scheduler::slurm
                  ? fmt::format("start it on {} with: {}", nodes == 1 ? "that node" : "every node",
                                srun_line(allocation, options, snapshot))
                  : "leave out --launcher none to let ddprun start itself there");
}

allocation::Allocation detect_started(const facts::Snapshot& snapshot, const options::Options& options) {
  allocation::Allocation allocation = allocation::detect_allocation(snapshot, options.place);
  refuse_unstarted(allocation, options, snapshot);
  return allocation;
}

namespace {

using Words = std::vector<std::string>;

struct RefusedOptions {
  std::string_view launcher;
  const char* options;  // separated by blanks
  const char* reason;
};

constexpr const char* k_one_a_node = "it starts one ddprun on each node";
constexpr const char* k_carries = "it reads the output of every node and sends input to rank 0";
constexpr const char* k_outlives = "it decides how long the other nodes run when one ends";
constexpr const char* k_needs_input = "it sends each node its task through standard input";

// srun(1), mpiexec of MPICH, Open MPI and PALS, ssh(1), pbsdsh(1B), flux-run(1), blaunch(1), qrsh(1).
constexpr RefusedOptions k_refused[] = {
    {"srun",
     "-n --ntasks -N --nodes --ntasks-per-node -w --nodelist -x --exclude -r --relative -m --distribution "
     "--het-group --multi-prog -F --nodefile",
     k_one_a_node},
    {"srun", "-o --output -e --error -i --input --pty -l --label", k_carries},
    {"srun", "-W --wait -K --kill-on-bad-exit -k --no-kill", k_outlives},
    {"mpiexec",
     "-n -np --n --np -N -c -ppn --ppn -npernode --npernode -perhost --map-by -map-by -host -hosts --host "
     "--hosts "
     "-hostfile --hostfile -f -machinefile --machinefile -configfile --app --line-buffer-app",
     k_one_a_node},
    {"mpiexec",
     "-l --label -prepend-rank --tag-output -outfile-pattern -errfile-pattern --output-filename --output "
     "-s --stdin -stdin --xterm",
     k_carries},
    {"mpiexec", "-genvnone -envnone -genvlist -envlist", "its agents need its variables"},
    {"ssh", "-n -f -N -t -W -O -s", k_needs_input},
    {"ssh", "-M -S", "a shared connection would outlive the ssh that is to end"},
    {"oarsh", "-n -f -N -t -W -O -s -M -S", k_needs_input},
    {"qrsh", "-inherit -pty -noshell", k_needs_input},
    {"pbsdsh", "-n -c -o -s", k_one_a_node},
    {"flux", "-n --ntasks -N --nodes --tasks-per-node --tasks-per-core --cores --requires", k_one_a_node},
    {"flux", "--output --error --input -l --label-io", k_carries},
    {"blaunch", "-z -u", k_one_a_node}};

constexpr std::string_view k_refused_settings[] = {
    "controlmaster", "controlpath", "controlpersist", "forkafterauthentication",
    "remotecommand", "requesttty",  "sessiontype",    "stdinnull"};

// Reports whether the word gives this option: "-n4" and "--ntasks=4" too, and abbreviations that getopt
// takes.
bool gives(const std::string& word, std::string_view option, std::string_view launcher) {
  constexpr std::size_t k_shortest = 5;
  const std::string_view name = std::string_view(word).substr(0, word.find('='));
  if (name == option) return true;
  if (option.starts_with("--")) return name.size() >= k_shortest && option.starts_with(name);
  return option.size() == 2 && launcher != "mpiexec" && launcher != "qrsh" && word.starts_with(option);
}

std::optional<std::string> find_refusal(const std::string& word, const std::string& launcher) {
  if (word == "--" || word == ":") return fmt::format("{} ends the options of {}", word, launcher);
  for (const RefusedOptions& row : k_refused) {
    if (row.launcher != launcher) continue;
    for (const std::string& option : split_words(row.options)) {
      if (gives(word, option, launcher))
        return fmt::format("ddprun sets {} of {} itself: {}", option, launcher, row.reason);
    }
  }
  return std::nullopt;
}

// Returns the value of an option: behind "=", behind a single letter, or the next word.
std::string value_of(const Words& words, std::size_t at, std::string_view option) {
  const std::string& word = words[at];
  if (word == option) return at + 1 < words.size() ? words[at + 1] : std::string();
  return word.substr(option.size() + (option.starts_with("--") ? 1 : 0));
}

// The values that matter: variables that srun passes on, and settings of ssh.
std::optional<std::string> find_refused_value(const Words& words, std::size_t at,
                                              const std::string& launcher) {
  const std::string& word = words[at];
  if (launcher == "srun" && (word == "--export" || word.starts_with("--export="))) {
    const std::string value = value_of(words, at, "--export");
    if (value != "ALL" && !value.starts_with("ALL,"))
      return fmt::format(
          "srun --export={} does not pass on the variables that the agents need: begin it with ALL", value);
  }
  if ((launcher == "ssh" || launcher == "oarsh") && word.starts_with("-o")) {
    const std::string value = to_lower(value_of(words, at, "-o"));
    const std::string name = value.substr(0, value.find_first_of("= "));
    if (std::ranges::find(k_refused_settings, name) != std::end(k_refused_settings))
      return fmt::format("ddprun sets {} of {} itself: {}", name, launcher, k_needs_input);
  }
  return std::nullopt;
}

}  // namespace

Sourced<Words> read_launcher_args(const options::Options& options, const std::string& remote_launcher) {
  const auto given = options.given.find("launcher-args");
  if (given == options.given.end()) return {};
  const std::string& origin = given->second.origin;
  const Words words = options::split_shell_words(given->second.value, origin, k_launcher_args_hint);
  if (!words.front().starts_with('-')) {
    throw UsageError(fmt::format("{} is no option: {} would run '{}' instead of ddprun", origin,
                                 remote_launcher, printable(words.front(), 80)),
                     k_launcher_args_hint);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto refusal = find_refusal(words[i], remote_launcher);
    if (!refusal) refusal = find_refused_value(words, i, remote_launcher);
    if (!refusal) continue;
    throw UsageError(
        fmt::format("{} cannot have '{}': {}", origin, printable(words[i], 80), printable(*refusal, 300)),
        fmt::format("leave it out; --nnodes limits the nodes, --nproc-per-node sets the workers, and "
                    "--launcher none and your own {} start ddprun without it",
                    remote_launcher));
  }
  return sourced(words, origin);
}

}  // namespace ddprun::selflaunch
