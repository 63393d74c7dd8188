#include "ddprun/run.hpp"
#include "allocation/detection/detect.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "agent/driver.hpp"
#include "allocation/detection/left_over.hpp"
#include "allocation/detection/started.hpp"
#include "allocation/manual.hpp"
#include "app/started_agent.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "command_line/arguments.hpp"
#include "command_line/command_line.hpp"
#include "command_line/lower_places.hpp"
#include "commands/check.hpp"
#include "commands/print_files.hpp"
#include "commands/status_command.hpp"
#include "console/console.hpp"
#include "event_loop/handlers.hpp"
#include "facts/lined_json.hpp"
#include "facts/proc_text.hpp"
#include "front_end/front_end.hpp"
#include "net/name_lookup.hpp"
#include "os/capture/capture.hpp"
#include "os/capture/capture_hardware.hpp"
#include "os/descriptors.hpp"
#include "os/libraries/nvml.hpp"
#include "os/libraries/topology.hpp"
#include "os/path_walk.hpp"
#include "os/process/become.hpp"
#include "os/read_file.hpp"
#include "peers/discovery.hpp"
#include "placement/assumed_topology.hpp"
#include "plan/bind_workers.hpp"
#include "plan/finalise.hpp"
#include "plan/launch_nodes.hpp"
#include "plan/propose.hpp"
#include "plan/rendezvous_plan.hpp"
#include "plan/worker_command.hpp"
#include "probes/launch_facts.hpp"
#include "program_nodes/program_child.hpp"
#include "program_nodes/program_node.hpp"
#include "program_nodes/programs_start.hpp"
#include "programs/program.hpp"
#include "render/render_plan.hpp"
#include "render/render_remote_launch.hpp"
#include "selflaunch/remote_launcher.hpp"
#include "site/site.hpp"
#include "streams/log_files.hpp"

namespace ddprun::app {

namespace {

constexpr std::size_t k_hostfile_limit = std::size_t{4} << 20;

// A script that the kernel cannot start, or that is none of Python's.
void refuse_script(const options::Options& options, const facts::ProgramFacts& facts,
                   const std::string& host) {
  using enum facts::ProgramKind;
  if (options.run_path || (facts.kind != executable && facts.kind != not_executable)) return;
  const os::FirstLine line = os::capture_first_line(facts.path);
  if (line.text.empty()) return;
  const std::string what = fmt::format("cannot start {} on {}: ", printable(options.command.front()), host);
  const std::string file = shell_quote(facts.path);
  if (line.text.ends_with('\r')) {
    throw Error(what + "its first line ends with a carriage return, as in files from Windows",
                fmt::format("remove the carriage returns: sed -i 's/\\r$//' {}", file),
                k_exit_not_executable);
  }
  if (facts.kind == not_executable) {
    throw Error(
        fmt::format("{}it is a script for {} and is not executable", what, printable(line.interpreter)),
        fmt::format("chmod +x {}; --run-path runs it with python", file), k_exit_not_executable);
  }
  if (line.interpreter_missing) {
    throw Error(
        fmt::format("{}{}, which its first line names, does not exist", what, printable(line.interpreter)),
        "correct the first line, or install that program on this host", k_exit_not_found);
  }
}

void add_program(facts::Snapshot& snapshot, const options::Options& options,
                 const std::string& where_missing) {
  const auto capture = [&](const std::string& program) {
    return os::capture_program(program, facts::find_variable(snapshot, "PATH"));
  };
  if (!options.container.words.empty()) {
    const std::string& program = options.container.words.front();
    snapshot.programs[program] = capture(program);
    return;  // the command is the image's
  }
  if (options.command.empty() || options.module) return;
  const std::string& word = options.command.front();
  const facts::ProgramFacts& facts = snapshot.programs[word] = capture(word);
  // The script of a PBS job starts in the home directory.
  refuse_script(options, facts, snapshot.host.name);
  if (facts.kind == facts::ProgramKind::missing && !where_missing.empty()) {
    throw Error(fmt::format("cannot start {} on {}: no such file", printable(word), snapshot.host.name),
                where_missing, k_exit_not_found);
  }
  const std::string submitted = plan::path_where_submitted(word, snapshot);
  if (facts.kind != facts::ProgramKind::missing || submitted.empty()) return;
  snapshot.programs[submitted] = os::capture_program(submitted, std::nullopt);
}

void read_hostfile(facts::Snapshot& snapshot, options::Options& options) {
  const std::string& path = options.hostfile;
  // The ddprun that started this one has read it, on a host that has it.
  if (path.empty() || facts::find_variable(snapshot, allocation::k_started_hosts_variable)) return;
  if (!snapshot.files.contains(path)) snapshot.files[path] = os::read_file(path, k_hostfile_limit);
  allocation::HostFile file = allocation::parse_hostfile(snapshot.files.at(path), path);
  options.place.hosts = sourced(std::move(file.hosts), "--hostfile");
  if (file.slots) {
    options.notices.push_back({fmt::format("the numbers of slots in {} have no effect", path),
                               "--nproc-per-node sets the number of workers on each host"});
  }
}

// Looks up the coordinator's name if several nodes have no numbers: only its addresses show which node has
// it.
void look_up_coordinator(facts::Snapshot& snapshot, const options::Options& options) {
  const std::string name = allocation::name_to_look_up(snapshot, options.place);
  if (!name.empty()) snapshot.names[name] = join(net::look_up_name(name), " ");
}

// A plan resolves no name.
std::optional<allocation::Notice> find_unknown_coordinator(const facts::Snapshot& snapshot,
                                                           const options::Options& options) {
  const std::string name = allocation::name_to_look_up(snapshot, options.place);
  if (options.dry_run == options::DryRun::off || name.empty() || snapshot.names.contains(name))
    return std::nullopt;
  return allocation::Notice{
      fmt::format("--dry-run does not look up {}: if it is a name of {}, this node has rank 0",
                  printable(name, 80), snapshot.host.name),
      "add --node-rank to plan for one node"};
}

// Adds the site that the user names by its file; it is of this machine even if the snapshot is of another.
void add_site_file(facts::Snapshot& snapshot, const options::Options& options) {
  if (!site::names_site_file(options.site)) return;
  const auto told = facts::find_variable(snapshot, allocation::k_started_site_variable);
  snapshot.files[options.site] = told ? *told : os::read_file(options.site, facts::k_site_file_limit);
}

// Adds the file with the order of hosts, which every agent reads for itself.
void add_order_file(facts::Snapshot& snapshot, const options::Options& options) {
  const std::string file = options::order_file(options);
  if (!file.empty()) snapshot.files[file] = os::read_file(file, allocation::k_order_file_limit);
}

// Follows a site's profile, which is known once the options are read, and may have options for what they
// leave open.
bool follow_site_options(const facts::Snapshot& snapshot, command_line::OptionLayers& layers,
                         options::Options& options, command_line::Advice& advice) {
  if (!options.capture_file.empty()) return false;
  std::vector<facts::OptionText> of_site = site::choose_site(snapshot, options.site).profile.options;
  if (of_site.empty()) return false;
  layers.push_back(std::move(of_site));
  options = std::get<options::Options>(
      command_line::parse_command_line(snapshot.arguments, snapshot.environment, layers, &advice));
  return true;
}

// Takes FILE.svg of --dry-run=svg from the command: no training script ends like that.
void take_picture_file(options::Options& options) {
  if (options.dry_run != options::DryRun::svg || options.command.empty()) return;
  if (!options.command.front().ends_with(".svg")) return;
  if (options.command.size() > 1) {
    throw UsageError(fmt::format("unexpected argument {} after the SVG file", printable(options.command[1])),
                     fmt::format("write the file last, as in ddprun --topology node.xml --dry-run=svg {}",
                                 printable(options.command.front())));
  }
  options.picture_file = options.command.front();
  options.command.clear();
}

// Uses a description as this machine's topology; it has to know this machine's CPUs.
void use_topology(facts::HostFacts& host, facts::Topology topology) {
  const std::vector<int> known = facts::all_cpus(topology);
  if (!std::includes(known.begin(), known.end(), host.allowed_cpus.begin(), host.allowed_cpus.end())) {
    throw UsageError(
        fmt::format("{} describes CPUs {}, but this process may use {} on {}", topology.source,
                    facts::render_cpu_list(known), facts::render_cpu_list(host.allowed_cpus), host.name),
        "leave --topology out, or add --dry-run to plan for that other node");
  }
  topology.host.clear();
  host.topology = std::move(topology);
}

// Reads the hardware, once it is clear that it is needed.
void look_at_hardware(facts::Snapshot& snapshot, options::Options& options, bool wants_topology) {
  if (!options.topology.empty()) {
    if (options.topology == "-" && options.dry_run == options::DryRun::off) {
      throw UsageError("--topology - reads standard input, which the workers need",
                       "write it into a file, or add --dry-run");
    }
    facts::Topology topology = os::load_topology(options.topology);
    if (options.dry_run == options::DryRun::off) return use_topology(snapshot.host, std::move(topology));
    return placement::imagine_node(snapshot.host, topology, options.gpus);
  }
  if (options.snapshot_file.empty()) os::capture_hardware(snapshot.host, {wants_topology, true});
}

// Reports whether the topology is wanted. A person who looks at the plan sees the node in any case. A GPU may
// show to the driver's library only.
bool wants_topology(const facts::Snapshot& snapshot, const options::Options& options,
                    const allocation::Allocation& allocation) {
  if (options.bind.mode == options::BindMode::none && !options.nic.value) return false;
  return options.dry_run != options::DryRun::off || os::shows_nvidia() ||
         plan::needs_topology(options, allocation, snapshot);
}

void ask_libraries(facts::Snapshot& snapshot, const options::Options& options) {
  probes::ask_pmix_for_size(snapshot);
  if (options.dry_run != options::DryRun::off || !options.capture_file.empty())
    probes::ask_slurm_for_end(snapshot);
}

// Reports whether the notice is shown for all hosts at once, when they have met.
bool waits_for_others(const plan::NodeProposal& node, const allocation::Notice& notice) {
  if (!node.crowded.empty() && notice.what == node.crowded) return true;
  return node.rendezvous.agents > 1 && !node.missing_gpus.empty() &&
         notice == plan::describe_missing_gpus(node.host, node.missing_gpus);
}

void say_notices(const plan::LaunchPlan& plan) {
  for (const allocation::Notice& notice : plan.node->options.notices) console::say_detail(notice.what);
  if (plan.node->rendezvous.agent.value != 0) return;
  for (const allocation::Notice& notice : plan::notices_of(plan)) {
    if (!waits_for_others(*plan.node, notice)) console::say_notice(notice);
  }
}

std::optional<allocation::Notice> drop_left_over(facts::Snapshot& snapshot) {
  const std::vector<std::string> names = allocation::find_left_over(snapshot);
  if (names.empty()) return std::nullopt;
  allocation::Notice notice{
      fmt::format("ignored {} variables inherited from a ddprun worker of {} ({}, ...)", names.size(),
                  allocation::describe_left_over(snapshot), names.front()),
      {}};
  for (const std::string& name : names) snapshot.environment.erase(name);
  return notice;
}

using Notices = std::vector<allocation::Notice>;

Notices join_notices(Notices notices, const std::optional<allocation::Notice>& more) {
  if (more) notices.push_back(*more);
  return notices;
}

// Reports whether this host's plan is shown, to a person or a program.
bool shows_plan(const options::Options& options) {
  const bool shown = options.dry_run == options::DryRun::text || options.dry_run == options::DryRun::json;
  return shown && options.snapshot_file.empty();
}

int start_everywhere(selflaunch::SelfLaunchPlan& plan, const options::Options& options,
                     facts::Snapshot& snapshot) {
  if (options.dry_run != options::DryRun::off) {
    if (shows_plan(options)) probes::ask_for_job_time(plan.allocation, snapshot);
    options.dry_run == options::DryRun::json
        ? console::print_data(render::render_json(plan, snapshot, options.time_limit))
        : console::print_text(render::render_text(plan, snapshot, options.time_limit));
    return 0;
  }
  for (const allocation::Notice& notice : options.notices) console::say_detail(notice.what);
  for (const allocation::Notice& notice : plan.notices) console::say_notice(notice);
  front_end::FrontEnd front_end(plan, options, snapshot);
  const int code = front_end.run();
  if (code != 0 && front_end.failure()) tell_outer_launcher(snapshot, *front_end.failure());
  return code;
}

// Plans a self-launch if nothing is started yet on hosts that are ours: the programs that could do it are
// looked for only then.
std::optional<selflaunch::SelfLaunchPlan> plan_self_launch(facts::Snapshot& snapshot,
                                                           const options::Options& options,
                                                           const allocation::Allocation& allocation) {
  if (options.dry_run == options::DryRun::env ||
      allocation.style.value != allocation::LaunchStyle::not_started)
    return std::nullopt;
  if (options.snapshot_file.empty())
    os::capture_remote_launchers(snapshot, selflaunch::remote_launcher_programs(allocation, options));
  return selflaunch::make_self_launch_plan(snapshot, options, allocation);
}

console::Talk talk_of(const options::Options& options) {
  return options.quiet     ? console::Talk::quiet
         : options.verbose ? console::Talk::verbose
                           : console::Talk::normal;
}

// Reads all of this host that planning asks for beside what capture_snapshot found, and what the options
// leave to files.
void read_named_files(facts::Snapshot& snapshot, command_line::OptionLayers& layers,
                      options::Options& options, command_line::Advice& advice) {
  take_picture_file(options);
  add_program(snapshot, options, advice.where_missing);
  read_hostfile(snapshot, options);
  add_site_file(snapshot, options);
  add_order_file(snapshot, options);
  if (follow_site_options(snapshot, layers, options, advice)) read_hostfile(snapshot, options);
}

// Replaces this host's facts by another host's, with the options of this command line: the PET_ variables of
// that host count, not ours.
Notices become_snapshot(facts::Snapshot& snapshot, options::Options& options) {
  const std::vector<std::string> arguments = snapshot.arguments;
  snapshot = facts::parse_snapshot(os::read_file(options.snapshot_file, facts::k_snapshot_limit),
                                   options.snapshot_file);
  auto left_over = drop_left_over(snapshot);
  command_line::Advice advice;
  options = std::get<options::Options>(
      command_line::parse_command_line(arguments, snapshot.environment, {}, &advice));
  take_picture_file(options);
  read_hostfile(snapshot, options);
  add_site_file(snapshot, options);
  snapshot.arguments = arguments;
  return join_notices(std::move(advice.warnings), left_over);
}

// Writes the capture. `environment` is the one before any variable was removed from it.
int capture(facts::Snapshot& snapshot, options::Options& options, facts::Environment environment) {
  os::capture_remote_launchers(snapshot, selflaunch::all_remote_launcher_programs());
  look_at_hardware(snapshot, options, options.bind.mode != options::BindMode::none || options.nic.value);
  snapshot.environment = std::move(environment);
  ask_libraries(snapshot, options);
  return commands::write_capture(snapshot, options);
}

plan::NodeProposal propose_here(facts::Snapshot& snapshot, const options::Options& options,
                                allocation::Allocation allocation, os::CoreClaims& claims) {
  if (options.snapshot_file.empty()) {
    probes::ask_for_tasks(allocation, options, snapshot);
    probes::ask_for_topology(allocation, options, snapshot);
  }
  plan::NodeProposal node = plan::propose(snapshot, options, std::move(allocation));
  const bool of_this_host = options.snapshot_file.empty();
  if (of_this_host && options.topology.empty())
    node = probes::keep_to_granted_cpus(std::move(node), snapshot, claims);
  const bool alone_meant = options.place.standalone || options.place.nodes || !of_this_host;
  const auto no_job =
      alone_meant ? std::nullopt : probes::find_job_without_variables(snapshot, node.allocation);
  if (no_job) node.notices.push_back(*no_job);
  return node;
}

// Carries out the launch that the options and the environment describe: prints it, starts it on all hosts, or
// runs it here. `started` is set once there is no way back.
int launch(facts::Snapshot& snapshot, options::Options& options,
           const std::vector<programs::Program>& programs, const Notices& known, bool& started,
           streams::OutputLink& output_link) {
  allocation::Allocation allocation = allocation::detect_allocation(snapshot, options.place);
  if (!programs.empty()) {
    program_nodes::refuse_tasks(allocation);
    if (options.dry_run != options::DryRun::off)
      return program_nodes::print_programs(programs, options, allocation, snapshot);
  }
  if (auto self_launch = plan_self_launch(snapshot, options, allocation)) {
    self_launch->notices.insert(self_launch->notices.end(), known.begin(), known.end());
    return start_everywhere(*self_launch, options, snapshot);
  }
  selflaunch::refuse_unstarted(allocation, options, snapshot);
  look_at_hardware(snapshot, options, wants_topology(snapshot, options, allocation));
  os::CoreClaims claims;
  plan::NodeProposal node = propose_here(snapshot, options, std::move(allocation), claims);
  node.notices.insert(node.notices.end(), known.begin(), known.end());
  if (const auto unknown = find_unknown_coordinator(snapshot, options)) node.notices.push_back(*unknown);
  const bool runs = options.dry_run == options::DryRun::off;
  if (shows_plan(options) && node.rendezvous.agent.value == 0)
    probes::ask_for_job_time(node.allocation, snapshot);
  if (runs) streams::check_log_folder(options.output, node.host);
  probes::StartLook look;
  if (runs) look = commands::check_before_start(node, snapshot);
  if (options.snapshot_file.empty()) commands::check_staged(node, snapshot);
  if (runs) peers::settle_local_address(node, snapshot);  // all hear of it where it fails
  const plan::Assignment share = plan::make_expected_assignment(node);
  const plan::LaunchPlan expected =
      plan::finalise(std::make_shared<const plan::NodeProposal>(std::move(node)), share, snapshot);
  if (!runs) return commands::print_plan(expected, snapshot);
  say_notices(expected);
  started = true;
  return agent::Driver(expected, snapshot, output_link, {}, std::move(look)).run();
}

// Runs ddprun. `understood` receives the options once they are read.
int run(facts::Snapshot& snapshot, std::optional<options::Options>& understood, bool& started,
        streams::OutputLink& output_link) {
  const std::string program = program_nodes::own_program(snapshot.environment);
  console::set_up_log(console::Talk::normal, snapshot.host.stderr_is_terminal, snapshot.host.name, program);
  if (commands::is_check_node(snapshot)) return commands::check_node(snapshot);
  if (program_nodes::is_program_node(snapshot)) return program_nodes::run_program_node(snapshot);
  if (allocation::is_started_agent(snapshot.arguments)) become_started_agent(snapshot);
  if (const auto mask = allocation::find_front_end_umask(snapshot)) os::set_umask(*mask);
  const facts::Environment captured = snapshot.environment;
  const auto left_over = drop_left_over(snapshot);

  command_line::OptionLayers layers = command_line::read_configuration(snapshot);
  command_line::Advice advice;
  program_nodes::read_job_file(snapshot);
  const auto pieces = programs::split_programs(snapshot.arguments);
  snapshot.arguments = programs::join_programs(pieces);
  auto parsed = command_line::parse_command_line(pieces.front(), snapshot.environment, layers, &advice);
  if (const auto* printed = std::get_if<command_line::Printed>(&parsed)) {
    console::print_data(printed->text);
    return printed->exit_code;
  }
  options::Options& options = understood.emplace(std::move(std::get<options::Options>(parsed)));
  console::set_up_log(talk_of(options), snapshot.host.stderr_is_terminal, snapshot.host.name, program);
  if (options.stacks) return commands::show_stacks(options, snapshot.host.name);
  if (options.profile) return commands::profile_job(options, snapshot.host.name);
  if (options.restart || !options.drain.empty()) return commands::restart_job(options, snapshot.host.name);
  if (options.status) return commands::show_jobs(options, snapshot.host.name);
  if (!options.timeline_file.empty()) return console::print_text(commands::draw_timeline(options)), 0;
  if (!only_looks({}, options) && output_link.connect(snapshot, options))
    snapshot.host.stderr_is_terminal = false;

  Notices known;
  std::vector<programs::Program> several;
  if (!options.snapshot_file.empty()) {
    known = become_snapshot(snapshot, options);
  } else {
    commands::make_check_job(options);
    several = program_nodes::read_programs(pieces, options, snapshot.environment, layers);
    several.empty() ? program_nodes::refuse_alone(options)
                    : program_nodes::make_programs_launch(options, several);
    read_named_files(snapshot, layers, options, advice);
    known = join_notices(std::move(advice.warnings), left_over);
    commands::make_check_job(options);  // again where a site has given options
    if (options.print_config)
      return console::print_text(
                 command_line::render_config(options, facts::config_files(snapshot.environment))),
             0;
    if (options.dry_run == options::DryRun::off) look_up_coordinator(snapshot, options);
  }
  snapshot.arguments =
      command_line::normalise_arguments(snapshot.arguments, command_line::option_table()).launch;
  if (!options.capture_file.empty()) return capture(snapshot, options, captured);
  if (options.snapshot_file.empty()) ask_libraries(snapshot, options);
  return launch(snapshot, options, several, known, started, output_link);
}

}  // namespace

int run_program(int argc, char** argv) noexcept {
  facts::Snapshot snapshot;
  std::vector<std::string> arguments;  // arguments as they were given
  std::optional<options::Options> options;
  bool started = false;
  streams::OutputLink output_link;
  int code = k_exit_own_failure;
  try {
    console::note_standard_output();
    os::ensure_standard_descriptors();
    snapshot = os::capture_snapshot(argc, argv);
    arguments = snapshot.arguments;
    return run(snapshot, options, started, output_link);
  } catch (const Error& error) {
    code = error.exit_code();
    if (!started && !only_looks(arguments, options)) {
      if (const auto told = tell_other_agents(snapshot, options, error, output_link)) return *told;
    }
    console::say_error(error.what(), error.hint());
    tell_outer_launcher(snapshot, error);
  } catch (const std::exception& error) {
    console::say_error(fmt::format("on {}: {}", snapshot.host.name, event_loop::describe_exception(error)),
                       "please report it with the output of ddprun --capture -");
  }
  if (!only_looks(arguments, options)) report_failed_start(snapshot, code);
  return code;
}

}  // namespace ddprun::app
