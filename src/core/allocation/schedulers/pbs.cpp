#include "allocation/schedulers/schedulers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/hostlist.hpp"
#include "allocation/manual.hpp"
#include "allocation/schedulers/job.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "facts/lined_json.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::allocation {

namespace {

constexpr const char* k_pbs_leak_hint =
    "if the variables are left from an earlier job, clear them with `unset ${!PBS_@}`; to use this host "
    "alone, add "
    "--standalone";

struct Pbs {
  const facts::Snapshot& snapshot;
  const PlaceOptions& options;
  Variables variables;
  Job job;
  NodeFile file;  // empty where this host does not have it
  std::string file_path;
  bool ours = false;  // proven by something not inherited
};

// Reports whether tm_spawn made the task: it numbers tasks in eight hexadecimal digits, while the job's own
// shell has a plain 1 (start_exec.c).
bool is_spawned_task(const Variables& variables) {
  const auto number = variables.text("PBS_TASKNUM");
  return number && number->value.size() == 8 &&
         number->value.find_first_not_of("0123456789ABCDEFabcdef") == std::string::npos;
}

// Counts the CPUs. NCPUS is of one chunk. Lines that repeat a host are its mpiprocs, or chunks that were
// packed there.
void count_cpus(Pbs& pbs) {
  const auto chunk = parse_integer(facts::find_variable(pbs.snapshot, "NCPUS").value_or(""));
  const int lines = pbs.file.slots[static_cast<std::size_t>(*pbs.job.own)];
  if (!chunk || *chunk < 1 || *chunk > facts::k_highest_cpu) return;
  pbs.job.base.cpus_on_node =
      lines > *chunk ? sourced(lines, "lines of the node file") : sourced(static_cast<int>(*chunk), "NCPUS");
}

// Reads mpiprocs. Torque, which sets no NCPUS, has a line for each CPU (nodes=N:ppn=M).
void read_asked_tasks(Pbs& pbs, const std::string& origin) {
  if (!pbs.variables.has("NCPUS")) return;
  std::vector<Host> asked;
  for (std::size_t i = 0; i < pbs.file.hosts.size(); ++i)
    asked.push_back({pbs.file.hosts[i], pbs.file.slots[i]});
  pbs.job.base.asked_tasks = sourced(std::move(asked), origin);
}

void read_hosts(Pbs& pbs) {
  const std::string origin = pbs.variables.has("PBS_NODEFILE") ? "PBS_NODEFILE" : "node file of the job";
  const auto& files = pbs.snapshot.files;
  const auto configuration = files.find(facts::find_pbs_configuration(pbs.snapshot.environment));
  pbs.file_path = facts::find_pbs_node_file(facts::with_pbs_home(
      pbs.snapshot.environment, configuration == files.end() ? std::string() : configuration->second));
  const auto contents = pbs.snapshot.files.find(pbs.file_path);
  if (contents == pbs.snapshot.files.end()) return;
  pbs.file = parse_node_file(contents->second, pbs.file_path);
  pbs.job.hosts = sourced(pbs.file.hosts, origin);
  pbs.job.own = find_host(pbs.file.hosts, pbs.snapshot.host.name);
  if (pbs.job.own) count_cpus(pbs);
  read_asked_tasks(pbs, "mpiprocs in " + origin);
  pbs.job.base.job_nodes = sourced(static_cast<int>(pbs.file.hosts.size()), origin);
}

Pbs read_pbs(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  Pbs pbs{snapshot, options, Variables(snapshot.environment), {}, {}, {}, is_under_pbs(snapshot.host)};
  const auto id = pbs.variables.text("PBS_JOBID");
  pbs.job.base = make_no_job(options).base;
  pbs.job.base.scheduler = sourced(facts::Scheduler::pbs, id->origin);
  pbs.job.base.job_id = *id;
  pbs.job.name = "PBS job " + printable(id->value, 80);
  pbs.job.leak_hint = k_pbs_leak_hint;
  pbs.job.script_on_first = true;
  pbs.job.below_script = is_below_script(snapshot.host);
  // Torque numbers the tasks of pbsdsh as it numbers the script.
  if (pbs.variables.text("PBS_NODENUM").value_or(Sourced<std::string>{"0", {}}).value != "0")
    pbs.job.below_script = false;
  if (const auto cookie = pbs.variables.text("PBS_JOBCOOKIE")) {
    pbs.job.base.secrets.push_back({SecretKind::pbs_cookie, cookie->value, cookie->origin});
  }
  read_hosts(pbs);
  return pbs;
}

// Throws unless something shows that the job is ours: its node file may be gone, which says that the job is
// over, or name other hosts.
void check_ours(const Pbs& pbs) {
  if (pbs.ours || pbs.job.own) return;
  const std::string set = fmt::format("the variables of {} are set (PBS_JOBID)", pbs.job.name);
  const std::string& host = pbs.snapshot.host.name;
  if (pbs.job.hosts.known()) {
    throw Error(fmt::format("{}, but this host, {}, is not in its node file {} ({})", set, host,
                            printable(pbs.file_path, 80), compress_hostlist(pbs.file.hosts)),
                k_pbs_leak_hint);
  }
  throw Error(
      fmt::format("{}, but its node file {} cannot be read on {}", set, printable(pbs.file_path, 80), host),
      k_pbs_leak_hint);
}

// Throws if a host has several lines: pbsdsh starts a task for each line of the node file, and no variable
// distinguishes those of one host.
void check_one_a_host(const Pbs& pbs) {
  if (pbs.options.nodes && pbs.options.nodes->value == static_cast<int>(pbs.file.hosts.size())) return;
  const auto most = std::max_element(pbs.file.slots.begin(), pbs.file.slots.end());
  if (most == pbs.file.slots.end() || *most == 1) return;
  throw Error(fmt::format("the node file of {} names {} {} times: pbsdsh starts as many ddprun processes "
                          "there, which cannot be told apart",
                          pbs.job.name,
                          pbs.file.hosts[static_cast<std::size_t>(most - pbs.file.slots.begin())], *most),
              fmt::format("leave pbsdsh out: ddprun starts itself once on each host; or start one per host "
                          "(pbsdsh -n, mpiexec --ppn 1) and add --nnodes {}",
                          pbs.file.hosts.size()));
}

Allocation parse_spawned(const Pbs& pbs) {
  const auto number = pbs.variables.number("PBS_NODENUM", 0, static_cast<std::int64_t>(k_max_hosts));
  if (!pbs.job.hosts.known() || !number) {
    throw Error(fmt::format("pbsdsh started this ddprun in {}, but {}", pbs.job.name,
                            number ? fmt::format("its node file {} cannot be read on {}",
                                                 printable(pbs.file_path, 80), pbs.snapshot.host.name)
                                   : "PBS_NODENUM is not set"),
                "start ddprun with mpiexec, or give --nnodes, --node-rank and --master-addr");
  }
  check_one_a_host(pbs);
  const int node = pbs.job.own.value_or(static_cast<int>(number->value));
  if (node >= static_cast<int>(pbs.file.hosts.size())) {
    throw Error(fmt::format("PBS_NODENUM={}, but the node file {} has {}", number->value,
                            printable(pbs.file_path, 80),
                            count_of(static_cast<std::int64_t>(pbs.file.hosts.size()), "host")),
                k_pbs_leak_hint);
  }
  if (pbs.file.hosts.size() == 1)
    return stand_alone(pbs.job, pbs.snapshot, pbs.options, pbs.job.hosts.origin);
  Allocation allocation = pbs.job.base;
  allocation.launcher = sourced(std::string("pbsdsh"), "PBS_TASKNUM");
  allocation.style = sourced(LaunchStyle::agent_per_node, "PBS_TASKNUM");
  if (pbs.options.run_id) allocation.instance = *pbs.options.run_id;
  allocation.hosts.origin = pbs.job.hosts.origin;
  for (const std::string& host : pbs.file.hosts) allocation.hosts.value.push_back({host, 1});
  allocation.node_index = {NodeIndex{node}, pbs.job.own ? pbs.job.hosts.origin : "PBS_NODENUM"};
  allocation.task_count = sourced(static_cast<int>(pbs.file.hosts.size()), pbs.job.hosts.origin);
  allocation.task_rank = sourced(node, allocation.node_index.origin);
  allocation.task_local = sourced(LocalRank{0}, "one ddprun per node");
  return allocation;
}

}  // namespace

bool is_under_pbs(const facts::HostFacts& host) {
  return has_ancestor(host, {"pbs_mom", "pbs_attach"}) ||
         host.cgroup.find("/pbs_jobs.service/") != std::string::npos;
}

bool has_pbs_job(const facts::Snapshot& snapshot) {
  return Variables(snapshot.environment).has("PBS_JOBID") && !is_nqsv_job(snapshot);
}

bool is_nqsv_job(const facts::Snapshot& snapshot) {
  const std::string id = facts::find_variable(snapshot, "PBS_JOBID").value_or("");
  const std::size_t digits = id.find_first_not_of("0123456789");
  return digits != std::string::npos && digits > 0 && id[digits] == ':';
}

Allocation parse_pbs(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const Pbs pbs = read_pbs(snapshot, options);
  if (options.standalone) return stand_alone(pbs.job, snapshot, options, "--standalone");
  const auto places = find_launch_places(snapshot);
  const bool manual = is_complete_manual(options);
  // A MoM built with PMIx gives its tasks a rank without a size; PBS' own numbers then say more.
  const bool told = !places.empty() && (places.front().size || !is_spawned_task(pbs.variables));
  if (told && !manual) return follow_launcher(pbs.job, places.front(), snapshot, options);
  if (!manual) check_ours(pbs);
  if (is_spawned_task(pbs.variables) && !manual) return parse_spawned(pbs);
  return settle_unstarted(pbs.job, "the script of a PBS job", snapshot, options);
}

}  // namespace ddprun::allocation
