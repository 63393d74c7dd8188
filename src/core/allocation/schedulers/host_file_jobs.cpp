#include "allocation/schedulers/schedulers.hpp"

#include <fmt/format.h>

#include "allocation/hostlist.hpp"
#include "allocation/launchers/launchers.hpp"
#include "allocation/manual.hpp"
#include "allocation/schedulers/job.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

struct HostFileRow {
  facts::Scheduler scheduler;
  const char* name;     // for messages
  const char* job;      // the job's id
  const char* element;  // names the element of an array, which has the array's id
  const char* file;     // names the file
  const char* restarted;
  const char* script;
  const char* clear;
};

constexpr HostFileRow k_sge{facts::Scheduler::sge,
                            "Grid Engine",
                            "JOB_ID",
                            "SGE_TASK_ID",
                            "PE_HOSTFILE",
                            "RESTARTED",
                            "the script of a Grid Engine job",
                            "unset PE_HOSTFILE"};
constexpr HostFileRow k_oar{
    facts::Scheduler::oar, "OAR", "OAR_JOB_ID", "", "OAR_NODEFILE", "", "the script of an OAR job",
    "unset ${!OAR_@}"};
constexpr HostFileRow k_pjm{
    facts::Scheduler::pjm, "PJM", "PJM_JOBID", "PJM_SUBJOBID", "PJM_O_NODEINF", "", "the script of a PJM job",
    "unset ${!PJM_@}"};

std::string leak_hint_of(const HostFileRow& row) {
  return fmt::format(
      "if the variables are left from an earlier job, clear them with `{}`; to use this host alone, add "
      "--standalone",
      row.clear);
}

// Returns the first word of each line; Grid Engine's lines have more.
std::string first_words(const std::string& contents) {
  std::vector<std::string> names;
  for (const std::string& line : split(contents, '\n')) {
    const std::vector<std::string> words = split_words(line);
    if (!words.empty()) names.push_back(words.front());
  }
  return join(names, "\n");
}

void read_job_hosts(const HostFileRow& row, const facts::Snapshot& snapshot, Job& job) {
  const auto path = Variables(snapshot.environment).text(row.file);
  const auto contents = snapshot.files.find(path->value);
  if (contents == snapshot.files.end()) {
    throw Error(fmt::format("{} names {}, which cannot be read on {}", row.file, printable(path->value, 80),
                            snapshot.host.name),
                leak_hint_of(row));
  }
  job.hosts = sourced(parse_node_file(first_words(contents->second), path->value).hosts, row.file);
  job.own = find_host(job.hosts.value, snapshot.host.name);
  job.base.job_nodes = sourced(static_cast<int>(job.hosts.value.size()), row.file);
  if (job.own) return;
  throw Error(
      fmt::format("the variables of {} are set ({}), but this host, {}, is not in its node file {} ({})",
                  job.name, row.file, snapshot.host.name, printable(path->value, 80),
                  compress_hostlist(job.hosts.value)),
      leak_hint_of(row));
}

// "123.4" of Grid Engine, where SGE_TASK_ID is "undefined" outside an array; PJM_SUBJOBID is "123[4]" or
// "123_4" in bulk and step jobs.
void name_element(const HostFileRow& row, const Variables& variables, std::string& job) {
  const auto element = row.element[0] == '\0' ? std::nullopt : variables.text(row.element);
  if (!element) return;
  if (row.scheduler == facts::Scheduler::sge) {
    if (parse_integer(element->value)) job += "." + element->value;
  } else if (element->value.starts_with(job)) {
    job = element->value;
  }
}

Job read_host_file_job(const HostFileRow& row, const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const Variables variables(snapshot.environment);
  Job job = make_no_job(options);
  job.base.scheduler = sourced(row.scheduler, row.file);
  job.leak_hint = leak_hint_of(row);
  job.script_on_first =
      row.scheduler == facts::Scheduler::sge;  // its master host; of the others nothing is sure
  if (const auto id = variables.text(row.job)) {
    job.base.job_id = *id;
    name_element(row, variables, job.base.job_id.value);
  }
  job.name = fmt::format("{} job {}", row.name, printable(job.base.job_id.value, 80));
  const auto restarts = row.restarted[0] == '\0' ? std::nullopt : variables.count(row.restarted, 0);
  if (restarts) job.base.restart_count = *restarts;
  return job;
}

Allocation parse_host_file_job(const HostFileRow& row, const facts::Snapshot& snapshot,
                               const PlaceOptions& options) {
  Job job = read_host_file_job(row, snapshot, options);
  if (options.standalone) return stand_alone(job, snapshot, options, "--standalone");
  const auto places = find_launch_places(snapshot);
  const bool launched = !places.empty() && !is_complete_manual(options);
  if (!launched) read_job_hosts(row, snapshot, job);
  if (launched) return follow_launcher(job, places.front(), snapshot, options);
  return settle_unstarted(job, row.script, snapshot, options);
}

}  // namespace

bool has_sge_job(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  return variables.has("SGE_ROOT") && variables.has("PE_HOSTFILE");
}

bool has_oar_job(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  return variables.has("OAR_JOB_ID") && variables.has("OAR_NODEFILE");
}

bool has_pjm_job(const facts::Snapshot& snapshot) {
  const Variables variables(snapshot.environment);
  return variables.has("PJM_JOBID") && variables.has("PJM_O_NODEINF");
}

Allocation parse_sge(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  return parse_host_file_job(k_sge, snapshot, options);
}
Allocation parse_oar(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  return parse_host_file_job(k_oar, snapshot, options);
}
Allocation parse_pjm(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  return parse_host_file_job(k_pjm, snapshot, options);
}

}  // namespace ddprun::allocation
