#include "allocation/detection/left_over.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/launchers/launchers.hpp"
#include "allocation/variables.hpp"
#include "base/text.hpp"
#include "facts/schedulers.hpp"

namespace ddprun::allocation {

namespace {

constexpr const char* k_launcher_prefixes[] = {"PMI_",
                                               "PMI2_",
                                               "PMIX_",
                                               "OMPI_",
                                               "PRTE_",
                                               "MV2_COMM_WORLD_",
                                               "MPI_LOCAL",
                                               "HYDI_",
                                               "HYDRA_",
                                               "PALS_",
                                               "JSM_",
                                               "FLUX_TASK_",
                                               "PLE_RANK_",
                                               "FLIB_RANK_",
                                               "SLURM_PMIX",
                                               "MPT_LRANK",
                                               "MPIR_CVAR_CH3_INTERFACE_HOSTNAME"};
constexpr const char* k_tuning_prefixes[] = {"OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_"};
// Open MPI hands its daemons' addresses to the processes under the same prefix as the user's tuning.
constexpr const char* k_not_tuning_prefixes[] = {"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix"};

template <class Prefixes>
bool starts_with_any(std::string_view name, const Prefixes& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

// Reports whether it is a scheduler's variable: a submitted job has its own of these.
bool is_of_a_job(std::string_view name) {
  return std::any_of(
      facts::k_schedulers.begin(), facts::k_schedulers.end(),
      [&](const facts::SchedulerTraits& scheduler) { return name.starts_with(scheduler.prefix); });
}

}  // namespace

std::string name_jobs(const facts::Environment& environment) {
  const Variables variables(environment);
  std::vector<std::string> jobs;
  for (const facts::SchedulerTraits& scheduler : facts::k_schedulers) {
    if (const auto id = variables.text(std::string(scheduler.job_variable)))
      jobs.push_back(fmt::format("{}/{}", scheduler.name, id->value));
  }
  return join(jobs, ",");
}

namespace {

// The list is "JOBS:NAME,NAME,..."; a job's id has no colon.
struct WorkerList {
  std::string jobs;
  std::vector<std::string> names;
};

std::optional<WorkerList> parse_worker_list(const facts::Environment& environment) {
  const auto text = Variables(environment).text(k_worker_list_variable);
  if (!text) return std::nullopt;
  const std::size_t colon = text->value.find(':');
  if (colon == std::string::npos) return std::nullopt;
  return WorkerList{text->value.substr(0, colon), split(text->value.substr(colon + 1), ',')};
}

// Reports whether the value is of this step. srun's own PMI plug-ins set a launcher's variables too:
// PMI_JOBID=42.0, and PMIX_NAMESPACE=slurm.pmix.42.0. PMI_JOBID=42 on Cray EX is the job alone.
bool is_of_this_step(const facts::Environment& environment) {
  const Variables variables(environment);
  const auto job = variables.text("SLURM_JOB_ID");
  const auto step = variables.text("PMI_JOBID");
  const auto space = variables.text("PMIX_NAMESPACE");
  if (!job) return false;
  return (step && (step->value + ".").starts_with(job->value + ".")) ||
         (space && space->value.starts_with("slurm.pmix." + job->value + "."));
}

}  // namespace

std::string make_worker_list(const facts::Environment& environment, const std::vector<std::string>& names) {
  std::vector<std::string> own;
  std::copy_if(names.begin(), names.end(), std::back_inserter(own),
               [](const std::string& name) { return !is_of_a_job(name); });
  return name_jobs(environment) + ":" + join(own, ",");
}

bool is_launcher_variable(std::string_view name) {
  if (!starts_with_any(name, k_launcher_prefixes)) return false;
  return !starts_with_any(name, k_tuning_prefixes) || starts_with_any(name, k_not_tuning_prefixes);
}

facts::Environment without_worker_variables(const facts::Environment& environment) {
  facts::Environment left = environment;
  const auto list = parse_worker_list(environment);
  if (!list) return left;
  for (const std::string& name : list->names) left.erase(name);
  left.erase(k_worker_list_variable);
  return left;
}

std::vector<std::string> find_left_over(const facts::Snapshot& snapshot) {
  const auto list = parse_worker_list(snapshot.environment);
  const std::string here = name_jobs(snapshot.environment);
  if (!list || here.empty() || here == list->jobs || has_ancestor(snapshot.host, {"ddprun"})) return {};
  std::vector<std::string> names;
  for (const std::string& name : list->names) {
    if (snapshot.environment.contains(name)) names.push_back(name);
  }
  names.emplace_back(k_worker_list_variable);
  if (!is_started_by_scheduler(snapshot.host) || is_of_this_step(snapshot.environment)) return names;
  for (const auto& [name, value] : snapshot.environment) {
    if (is_launcher_variable(name)) names.push_back(name);
  }
  return names;
}

bool is_inside_worker(const facts::Snapshot& snapshot) {
  const auto list = parse_worker_list(snapshot.environment);
  return list && list->jobs == name_jobs(snapshot.environment) && is_run_by(snapshot.host, "ddprun");
}

std::string describe_left_over(const facts::Snapshot& snapshot) {
  const auto list = parse_worker_list(snapshot.environment);
  return !list || list->jobs.empty() ? "no job" : printable(list->jobs, 80);
}

}  // namespace ddprun::allocation
