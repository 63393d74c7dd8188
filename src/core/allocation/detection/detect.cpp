#include "allocation/detection/detect.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>

#include "allocation/asked_tasks.hpp"
#include "allocation/detection/left_over.hpp"
#include "allocation/detection/started.hpp"
#include "allocation/hostlist.hpp"
#include "allocation/launchers/launchers.hpp"
#include "allocation/manual.hpp"
#include "allocation/places/places.hpp"
#include "allocation/schedulers/job.hpp"
#include "allocation/schedulers/schedulers.hpp"
#include "allocation/schedulers/slurm_place.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

struct Detector {
  facts::Scheduler scheduler;  // --scheduler takes its name
  const char* variable;        // variable that shows it, for messages
  bool (*applies)(const facts::Snapshot&);
  Allocation (*parse)(const facts::Snapshot&, const PlaceOptions&);
  // Reports whether something not inherited shows its processes above this one.
  bool (*is_above)(const facts::HostFacts&);
};

bool is_under_slurm(const facts::HostFacts& host) { return find_slurm_place(host).has_value(); }
bool is_under_lsf(const facts::HostFacts& host) { return has_ancestor(host, {"res", "sbatchd", "jsmd"}); }
bool is_under_sge(const facts::HostFacts& host) { return has_ancestor(host, {"sge_shepherd", "sge_execd"}); }
bool is_under_oar(const facts::HostFacts& host) { return host.cgroup.find("/oar/") != std::string::npos; }
bool is_under_pjm(const facts::HostFacts&) { return false; }  // no mark of its processes is known
bool is_under_flux(const facts::HostFacts& host) { return has_ancestor(host, {"flux-shell", "flux-broker"}); }

// A scheduler that can run inside another comes before it: Flux' broker is often started by srun.
constexpr std::array<Detector, 7> k_detectors{{
    {facts::Scheduler::flux, "FLUX_URI", has_flux_job, parse_flux, is_under_flux},
    {facts::Scheduler::slurm, "SLURM_JOB_ID", has_slurm_job, parse_slurm, is_under_slurm},
    {facts::Scheduler::pbs, "PBS_JOBID", has_pbs_job, parse_pbs, is_under_pbs},
    {facts::Scheduler::lsf, "LSB_JOBID", has_lsf_job, parse_lsf, is_under_lsf},
    {facts::Scheduler::sge, "PE_HOSTFILE", has_sge_job, parse_sge, is_under_sge},
    {facts::Scheduler::oar, "OAR_NODEFILE", has_oar_job, parse_oar, is_under_oar},
    {facts::Scheduler::pjm, "PJM_O_NODEINF", has_pjm_job, parse_pjm, is_under_pjm},
}};

Allocation parse_alone(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  Allocation allocation =
      make_alone(snapshot, options, options.standalone ? "--standalone" : "no scheduler and no --nnodes");
  if (options.standalone || options.node_rank || options.nodes) return allocation;
  if (auto notice = find_nqsv_job(snapshot)) allocation.notices.push_back(std::move(*notice));
  if (auto notice = find_hidden_job(snapshot)) allocation.notices.push_back(std::move(*notice));
  if (auto notice = find_unfollowed_place(snapshot, options))
    allocation.notices.push_back(std::move(*notice));
  return allocation;
}

// Returns the nodes of Kubeflow's MPI Operator, in its launcher pod, which is no node: the hosts of the file
// that names the nodes, which run sshd (kubeflow/mpi-operator, pkg/controller/mpi_job_controller.go).
std::optional<Sourced<std::vector<std::string>>> find_mpi_operator_hosts(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  const auto role = variables.text("K_MPI_JOB_ROLE");
  if (!role || role->value != "launcher") return std::nullopt;
  for (const char* name : {"OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"}) {
    const auto path = variables.text(name);
    const auto file = path ? snapshot.files.find(path->value) : snapshot.files.end();
    if (file == snapshot.files.end()) continue;
    return sourced(parse_hostfile(file->second, path->value).hosts, name);
  }
  return std::nullopt;
}

Allocation parse_without_scheduler(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  if (options.standalone) return parse_alone(snapshot, options);
  if (is_complete_manual(options)) return parse_manual(snapshot, options);
  const auto places = find_launch_places(snapshot);
  const bool several = !places.empty() && (!places.front().size || places.front().size->value > 1);
  if (several) return follow_launcher(make_no_job(options), places.front(), snapshot, options);
  const bool one_meant = options.nodes && options.nodes->value == 1;
  if (!one_meant) check_no_hidden_step(snapshot);
  if (auto hosts = one_meant ? std::nullopt : find_mpi_operator_hosts(snapshot)) {
    PlaceOptions listed = options;
    listed.hosts = std::move(hosts);
    return parse_listed_hosts(snapshot, listed);
  }
  const auto place = one_meant ? std::nullopt : find_place(snapshot, options);
  if (place) return follow_place(*place, snapshot, options);
  return is_manual(options) ? parse_manual(snapshot, options) : parse_alone(snapshot, options);
}

Allocation parse_launcher(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const auto places = find_launch_places(snapshot);
  if (places.empty()) {
    throw UsageError(fmt::format("{} mpi, but no MPI launcher has set a rank", options.scheduler->origin),
                     "start ddprun with an MPI launcher (mpiexec, mpirun), or leave it out");
  }
  return follow_launcher(make_no_job(options), places.front(), snapshot, options);
}

Allocation parse_by_flags_alone(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  return is_manual(options) ? parse_manual(snapshot, options)
                            : make_alone(snapshot, options, options.scheduler->origin);
}

// Detects inside a worker: a training script may start ddprun itself, for example to evaluate between two
// epochs.
Allocation parse_inside_worker(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  if (is_manual(options)) return parse_manual(snapshot, options);
  Allocation allocation = make_alone(snapshot, options, "inside a worker of another ddprun");
  if (options.standalone || (name_jobs(snapshot.environment).empty() && find_launch_places(snapshot).empty()))
    return allocation;
  allocation.notices.push_back(
      {fmt::format("this ddprun runs inside a worker of another ddprun: it is a separate launch on {}",
                   snapshot.host.name),
       "add --standalone if that is intended; to use more hosts, list them with --hosts"});
  return allocation;
}

Allocation ask_named(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  // clang 14 captures no structured binding
  const std::string& name = options.scheduler->value;
  const std::string& origin = options.scheduler->origin;
  if (name == "mpi") return parse_launcher(snapshot, options);
  if (name == "none") return parse_by_flags_alone(snapshot, options);
  const auto found = std::find_if(k_detectors.begin(), k_detectors.end(), [&](const Detector& detector) {
    return to_string(detector.scheduler) == name;
  });
  if (found == k_detectors.end()) {
    throw UsageError(fmt::format("{} names an unknown scheduler: '{}'", origin, printable(name, 80)),
                     "give one of " + join(scheduler_names(), ", "));
  }
  if (found->applies(snapshot)) return found->parse(snapshot, options);
  throw UsageError(fmt::format("{} {}, but {} is not set", origin, name, found->variable),
                   "leave it out, or start ddprun inside a job");
}

// Chooses among several schedulers that have left variables: the one above this process, then by the order of
// the table if one runs inside the other.
const Detector& choose(const std::vector<const Detector*>& candidates, const facts::HostFacts& host) {
  if (candidates.size() == 1) return *candidates.front();
  std::vector<const Detector*> above;
  for (const Detector* candidate : candidates) {
    if (candidate->is_above(host)) above.push_back(candidate);
  }
  if (above.size() == 1) return *above.front();
  const auto& left = above.empty() ? candidates : above;
  if (left.front()->parse == parse_flux) return *left.front();
  throw Error(
      fmt::format("cannot tell which job this process belongs to: {} and {} are both set", left[0]->variable,
                  left[1]->variable),
      fmt::format(
          "choose with --scheduler {} or --scheduler {}, or unset the variables left from another job",
          to_string(left[0]->scheduler), to_string(left[1]->scheduler)));
}

// Refuses hosts that were not followed. An agent that ddprun started has a place on the hosts of its front
// end; a variable that is left from another launch has none.
void check_hosts_followed(const facts::Snapshot& snapshot, const PlaceOptions& options,
                          const Allocation& allocation) {
  if (!options.hosts || options.hosts->value.size() < 2 || allocation.style.value != LaunchStyle::alone)
    return;
  if (!Variables(snapshot.environment).has(k_front_end_variable)) return;  // --nnodes 1 meant this host
  throw Error(fmt::format("{} is set without {}: stale variables from another launch", k_front_end_variable,
                          k_started_hosts_variable),
              fmt::format("unset {}", k_front_end_variable));
}

// A step or an MPI launcher that the front end started has its own numbers in the place of the job's.
void follow_started_tasks(const facts::Snapshot& snapshot, Allocation& allocation) {
  const auto text = Variables(snapshot.environment).text(k_started_tasks_variable);
  if (text && allocation.style.value == LaunchStyle::agent_per_node)
    allocation.asked_tasks = sourced(parse_asked_tasks(text->value, text->origin), text->origin);
}

Allocation ask_detectors(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  if (is_started(snapshot, options)) return parse_started(snapshot, options);
  if (has_listed_hosts(snapshot, options)) return parse_listed_hosts(snapshot, options);
  if (!options.scheduler && is_inside_worker(snapshot)) return parse_inside_worker(snapshot, options);
  const bool one_meant = options.nodes && options.nodes->value == 1;
  if (!one_meant && !is_complete_manual(options)) check_rank_not_lost(snapshot);
  if (options.scheduler) return ask_named(snapshot, options);
  std::vector<const Detector*> candidates;
  for (const Detector& detector : k_detectors) {
    if (detector.applies(snapshot)) candidates.push_back(&detector);
  }
  if (candidates.empty()) return parse_without_scheduler(snapshot, options);
  return choose(candidates, snapshot.host).parse(snapshot, options);
}

}  // namespace

std::vector<std::string> scheduler_names() {
  std::vector<std::string> names;
  for (const Detector& detector : k_detectors) names.push_back(to_string(detector.scheduler));
  names.emplace_back("mpi");
  names.emplace_back("none");
  return names;
}

Allocation detect_allocation(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  if (!options.standalone) {
    Allocation allocation = ask_detectors(snapshot, options);
    check_hosts_followed(snapshot, options, allocation);
    follow_started_tasks(snapshot, allocation);
    add_given_secrets(snapshot, allocation);
    return allocation;
  }
  try {
    return ask_detectors(snapshot, options);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    Allocation allocation = parse_alone(snapshot, options);
    allocation.notices.push_back({fmt::format("--standalone ignores that {}", error.what()), {}});
    return allocation;
  }
}

namespace {

struct ContainerRow {
  const char* variable;  // variable that it sets inside
  const char* hint;
};

// apptainer/apptainer, internal/pkg/util/env; podman sets container=podman, as does NERSC's podman-hpc.
constexpr std::array<ContainerRow, 4> k_containers{{
    {"APPTAINER_CONTAINER",
     "leave out --cleanenv, --containall and --no-env, or start ddprun outside the container: srun ddprun "
     "--container 'apptainer exec IMAGE' ..."},
    {"SINGULARITY_CONTAINER",
     "leave out --cleanenv and --containall, or start ddprun outside the container: srun ddprun --container "
     "'singularity exec IMAGE' ..."},
    {"container",
     "pass the variables to the container: podman-hpc run --mpi, or podman run --env 'SLURM_*'; or start "
     "ddprun outside the container: srun ddprun --container 'podman run IMAGE' ..."},
    {"CH_RUNNING", "leave out --unset-env"},
}};

const ContainerRow* find_container(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  for (const ContainerRow& row : k_containers) {
    if (variables.has(row.variable)) return &row;
  }
  return nullptr;
}

std::optional<SlurmPlace> find_hidden(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  if (variables.text("SLURM_JOB_ID", "SLURM_JOBID")) return std::nullopt;
  return find_slurm_place(snapshot.host);
}

std::string describe_hidden(const SlurmPlace& place, const ContainerRow& container) {
  return fmt::format(
      "this process runs in job {} of Slurm ({}), but SLURM_JOB_ID is not set in its container "
      "({} is set)",
      place.job, place.origin, container.variable);
}

}  // namespace

void check_no_hidden_step(const facts::Snapshot& snapshot) {
  const auto place = find_hidden(snapshot);
  const ContainerRow* const container = find_container(snapshot);
  if (!place || place->context != SlurmContext::step || container == nullptr) return;
  throw Error(describe_hidden(*place, *container),
              fmt::format("{}; to use this host alone, add --standalone", container->hint));
}

std::optional<Notice> find_hidden_job(const facts::Snapshot& snapshot) {
  const auto place = find_hidden(snapshot);
  const ContainerRow* const container = find_container(snapshot);
  if (!place || container == nullptr || place->context == SlurmContext::step) return std::nullopt;
  return Notice{describe_hidden(*place, *container) + ": ddprun uses this host only",
                fmt::format("{}; add --standalone if only one host is intended", container->hint)};
}

std::optional<Notice> find_nqsv_job(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  const auto id = variables.text("PBS_JOBID");
  const auto path = variables.text("PBS_NODEFILE");
  const auto file = path ? snapshot.files.find(path->value) : snapshot.files.end();
  if (!id || !is_nqsv_job(snapshot) || file == snapshot.files.end()) return std::nullopt;
  const std::size_t hosts = parse_node_file(file->second, path->value).hosts.size();
  if (hosts < 2) return std::nullopt;
  return Notice{fmt::format("NQSV job {} has {}, but ddprun uses this one only", printable(id->value, 80),
                            count_of(static_cast<std::int64_t>(hosts), "host")),
                "to start ddprun on all of them through ssh: --hostfile \"$PBS_NODEFILE\""};
}

}  // namespace ddprun::allocation
