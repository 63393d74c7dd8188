#include "allocation/schedulers/schedulers.hpp"

#include <fmt/format.h>

#include "allocation/hostlist.hpp"
#include "allocation/manual.hpp"
#include "allocation/schedulers/job.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

constexpr const char* k_lsf_leak_hint =
    "if the variables are left from an earlier job, clear them with `unset ${!LSB_@}`; to use this host "
    "alone, add "
    "--standalone";

struct HostList {
  NodeFile file;
  std::string origin;  // empty: not told
  bool in_environment = false;
};

[[noreturn]] void fail_list(const std::string& variable, const std::string& word) {
  throw Error(
      fmt::format("{} is not a list of hosts and slots: invalid entry \"{}\"", variable, printable(word, 80)),
      "such a list looks like h1 4 h2 4; clear the variable if it was set manually");
}

// Parses "h1 4 h2 4" as lines of a node file, one for each host; the slots identify a launch node only.
NodeFile parse_host_counts(const Sourced<std::string>& list) {
  const std::vector<std::string> words = split_words(list.value);
  if (words.empty() || words.size() % 2 != 0) fail_list(list.origin, words.empty() ? "" : words.back());
  std::vector<std::string> names;
  std::vector<int> slots;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto count = parse_integer(words[i + 1]);
    if (!is_host_name(words[i])) fail_list(list.origin, words[i]);
    if (!count || *count < 1 || *count > 1'000'000) fail_list(list.origin, words[i + 1]);
    names.push_back(words[i]);
    slots.push_back(static_cast<int>(*count));
  }
  NodeFile file = parse_node_file(join(names, "\n"), list.origin);
  if (file.hosts.size() == slots.size()) file.slots = slots;
  return file;
}

HostList read_list(const facts::Snapshot& snapshot, const Variables& variables) {
  if (const auto counts = variables.text("LSB_MCPU_HOSTS"))
    return {parse_host_counts(*counts), counts->origin, true};
  if (const auto names = variables.text("LSB_HOSTS"))
    return {parse_node_file(join(split_words(names->value), "\n"), names->origin), names->origin, true};
  const auto path = variables.text("LSB_DJOB_HOSTFILE");
  if (!path) return {};
  const auto contents = snapshot.files.find(path->value);
  if (contents == snapshot.files.end()) return {};
  return {parse_node_file(contents->second, path->value), path->origin, false};
}

// Drops the launch node: CORAL systems run the job's script on a node of its own, with one slot and no GPUs,
// named first; jsrun starts nothing there.
void drop_launch_node(const Variables& variables, bool by_jsrun, NodeFile& file) {
  const bool coral = by_jsrun || variables.has("CSM_ALLOCATION_ID");
  if (!coral || file.hosts.size() < 2 || file.slots[0] != 1 || file.slots[1] == 1) return;
  file.hosts.erase(file.hosts.begin());
  file.slots.erase(file.slots.begin());
}

Job read_job(const facts::Snapshot& snapshot, const PlaceOptions& options, bool by_jsrun) {
  const Variables variables(snapshot.environment);
  Job job = make_no_job(options);
  const auto id = variables.text("LSB_JOBID");
  const auto index = variables.number("LSB_JOBINDEX", 0, 1'000'000'000);
  job.base.scheduler = sourced(facts::Scheduler::lsf, id->origin);
  job.base.job_id = *id;
  if (index && index->value > 0) job.base.job_id.value += fmt::format("[{}]", index->value);
  job.name = "LSF job " + printable(job.base.job_id.value, 80);
  job.leak_hint = k_lsf_leak_hint;
  job.script_on_first = true;
  HostList list = read_list(snapshot, variables);
  if (list.origin.empty()) return job;
  const bool on_launch_node = same_host(list.file.hosts.front(), snapshot.host.name);
  const std::size_t listed = list.file.hosts.size();
  drop_launch_node(variables, by_jsrun, list.file);
  job.hosts = sourced(list.file.hosts, list.origin);
  job.hosts_in_environment = list.in_environment;
  job.own = find_host(job.hosts.value, snapshot.host.name);
  job.base.job_nodes = sourced(static_cast<int>(job.hosts.value.size()), list.origin);
  const bool dropped = list.file.hosts.size() < listed;
  if (!job.own && !by_jsrun && !(dropped && on_launch_node)) {
    throw Error(fmt::format("the variables of {} are set (LSB_JOBID), but this host, {}, is not in {} ({})",
                            job.name, snapshot.host.name, list.origin, compress_hostlist(job.hosts.value)),
                k_lsf_leak_hint);
  }
  return job;
}

}  // namespace

bool has_lsf_job(const facts::Snapshot& snapshot) { return Variables(snapshot.environment).has("LSB_JOBID"); }

Allocation parse_lsf(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const auto places = find_launch_places(snapshot);
  const Job job = read_job(snapshot, options, !places.empty() && places.front().launcher == "jsrun");
  const bool manual = is_complete_manual(options);
  if (!options.standalone && !manual && !places.empty())
    return follow_launcher(job, places.front(), snapshot, options);
  return settle_unstarted(job, "the script of an LSF job", snapshot, options);
}

}  // namespace ddprun::allocation
