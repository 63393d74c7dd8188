#include "selflaunch/remote_launcher_lines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/detection/left_over.hpp"
#include "allocation/detection/started.hpp"
#include "allocation/hostlist.hpp"
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

}  // namespace ddprun::selflaunch
