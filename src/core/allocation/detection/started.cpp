#include "allocation/detection/started.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "allocation/hostlist.hpp"
#include "allocation/launchers/launchers.hpp"
#include "allocation/manual.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

namespace {

constexpr std::array<const char*, 12> k_variables{k_started_umask_variable,
                                                  k_front_end_variable,
                                                  k_front_end_key_variable,
                                                  k_started_hosts_variable,
                                                  k_started_rank_variable,
                                                  k_started_job_variable,
                                                  k_started_remote_launcher_variable,
                                                  k_cpus_per_task_variable,
                                                  k_started_terminal_variable,
                                                  k_started_site_variable,
                                                  k_started_tasks_variable,
                                                  k_started_streams_variable};
constexpr const char* k_list_hint = "write host names separated by commas, as in n1,n2 or n[1-4]";
constexpr const char* k_listed = "hosts";

// Returns the index that the front end sent; else this host's by name; else the rank of an MPI launcher,
// which follows the order in which it was given the hosts.
Sourced<int> find_place(const facts::Snapshot& snapshot, const std::vector<std::string>& hosts) {
  const Variables variables(snapshot.environment);
  const std::string& own = snapshot.host.name;
  const auto last = static_cast<std::int64_t>(hosts.size()) - 1;
  if (const auto rank = variables.number(k_started_rank_variable, 0, last)) {
    return {static_cast<int>(rank->value), rank->origin};
  }
  if (const auto index = find_host(hosts, own)) return {*index, "host name"};
  for (const LaunchPlace& place : find_launch_places(snapshot)) {
    if (place.rank.value <= last) return place.rank;
  }
  throw Error(
      fmt::format("this host, {}, is not among the hosts of this launch: {}", own, compress_hostlist(hosts)),
      fmt::format("give the hosts as their own hostname command names them; if {} is left from another "
                  "launch, unset it",
                  k_started_hosts_variable));
}

void add_job(const Variables& variables, Allocation& allocation) {
  const auto job = variables.text(k_started_job_variable);
  if (!job) return;
  const std::size_t slash = job->value.find('/');
  const std::string name = job->value.substr(0, slash);
  for (const facts::SchedulerTraits& traits : facts::k_schedulers) {
    if (traits.name != name || slash == std::string::npos) continue;
    allocation.scheduler = sourced(traits.scheduler, job->origin);
    allocation.job_id = sourced(job->value.substr(slash + 1), job->origin);
  }
}

std::string front_end_id(const Variables& variables) {
  const auto front_end = variables.text(k_front_end_variable);
  return front_end ? front_end->value.substr(front_end->value.rfind('/') + 1) : std::string();
}

bool can_be_started(const std::string& host) {
  return !host.empty() && host.size() <= k_max_host_name && host.front() != '-' &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                  c == '-' || c == '_' || c == ':';
         });
}

[[noreturn]] void refuse_host(const std::string& host, const std::string& origin) {
  throw UsageError(fmt::format("{} has an invalid host name: '{}'", origin, printable(host, 80)),
                   k_list_hint);
}

// Hosts, each once, in the order in which they came.
struct HostSet {
  std::vector<std::string> hosts;
  std::unordered_set<std::string> seen;

  bool add(const std::string& host) {
    if (!seen.insert(host).second) return false;
    hosts.push_back(host);
    return true;
  }
};

}  // namespace

bool is_front_end_variable(std::string_view name) {
  return std::find(k_variables.begin(), k_variables.end(), name) != k_variables.end();
}

std::string describe_job(const Allocation& allocation) {
  if (allocation.job_id.value.empty()) return k_listed;
  return to_string(allocation.scheduler.value) + "/" + allocation.job_id.value;
}

bool has_front_end_terminal(const facts::Snapshot& snapshot) {
  return facts::find_variable(snapshot, k_started_terminal_variable).has_value();
}

std::optional<int> find_front_end_umask(const facts::Snapshot& snapshot) {
  const auto text = Variables(snapshot.environment).text(k_started_umask_variable);
  if (!text) return std::nullopt;
  const std::string& digits = text->value;
  if (digits.size() > 4 || digits.find_first_not_of("01234567") != std::string::npos) {
    throw Error(fmt::format("{} is not an octal number: '{}'", text->origin, printable(digits, 20)),
                "unset it");
  }
  int mask = 0;
  for (const char digit : digits) mask = 8 * mask + (digit - '0');
  return mask & 0777;
}

bool is_started(const facts::Snapshot& snapshot, const PlaceOptions&) {
  return Variables(snapshot.environment).has(k_started_hosts_variable);
}

Allocation parse_started(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  const Variables variables(snapshot.environment);
  const auto list = variables.text(k_started_hosts_variable);
  const std::vector<std::string> hosts = expand_hostlist(list->value, k_started_hosts_variable);
  if (hosts.empty()) throw Error(fmt::format("{} names no host", k_started_hosts_variable));
  const Sourced<int> place = find_place(snapshot, hosts);
  const std::string origin = "started by ddprun";
  Allocation allocation;
  allocation.scheduler = sourced(facts::Scheduler::manual, "--hosts");
  allocation.style = sourced(LaunchStyle::agent_per_node, origin);
  allocation.restart_count = by_default(0);
  if (const auto remote_launcher = variables.text(k_started_remote_launcher_variable))
    allocation.launcher = *remote_launcher;
  add_job(variables, allocation);
  allocation.instance = sourced(front_end_id(variables), k_front_end_variable);
  if (allocation.job_id.value.empty()) allocation.launch_id = allocation.instance;
  if (options.run_id) allocation.instance = *options.run_id;
  allocation.hosts.origin = list->origin;
  for (const std::string& host : hosts) allocation.hosts.value.push_back({host, 1});
  allocation.node_index = {NodeIndex{place.value}, place.origin};
  allocation.task_count = sourced(static_cast<int>(hosts.size()), list->origin);
  allocation.task_rank = sourced(place.value, place.origin);
  allocation.task_local = sourced(LocalRank{0}, origin);
  apply_coordinator_flags(options, allocation);
  return allocation;
}

bool has_listed_hosts(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  return options.hosts && !Variables(snapshot.environment).has(k_front_end_variable);
}

Allocation parse_listed_hosts(const facts::Snapshot& snapshot, const PlaceOptions& options) {
  std::vector<std::string> hosts = options.hosts->value;
  const std::string& origin = options.hosts->origin;
  if (options.nodes) {
    if (options.nodes->value > static_cast<int>(hosts.size())) {
      throw UsageError(fmt::format("{} {}, but {} names {}", options.nodes->origin, options.nodes->value,
                                   origin, count_of(static_cast<std::int64_t>(hosts.size()), "host")),
                       fmt::format("name more hosts, or leave out {}", options.nodes->origin));
    }
    hosts.resize(static_cast<std::size_t>(options.nodes->value));
  }
  const auto own = find_host(hosts, snapshot.host.name);
  if (hosts.size() == 1 && own) return make_alone(snapshot, options, origin);
  Allocation allocation;
  allocation.scheduler = sourced(facts::Scheduler::manual, origin);
  allocation.style = sourced(LaunchStyle::not_started, origin);
  allocation.restart_count = by_default(0);
  allocation.hosts.origin = origin;
  for (const std::string& host : hosts) allocation.hosts.value.push_back({host, 1});
  if (own) allocation.node_index = {NodeIndex{*own}, "host name"};
  allocation.task_count = sourced(static_cast<int>(hosts.size()), origin);
  apply_coordinator_flags(options, allocation);
  return allocation;
}

void add_given_secrets(const facts::Snapshot& snapshot, Allocation& allocation) {
  const Variables variables(snapshot.environment);
  if (const auto secret = variables.text(k_secret_variable)) {
    if (secret->value.size() < k_least_secret) {
      throw UsageError(
          fmt::format("{} has {}, but at least {} are required", k_secret_variable,
                      count_of(static_cast<std::int64_t>(secret->value.size()), "character"), k_least_secret),
          "make one with openssl rand -hex 32, and set it to the same value on every node");
    }
    allocation.secrets.insert(allocation.secrets.begin(), {SecretKind::given, secret->value, secret->origin});
  }
  if (const auto key = variables.text(k_front_end_key_variable))
    allocation.secrets.insert(allocation.secrets.begin(), {SecretKind::front_end, key->value, key->origin});
}

HostFile parse_hostfile(std::string_view text, const std::string& origin) {
  HostFile file;
  HostSet found;
  int number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++number;
    const std::vector<std::string> words = split_words(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    std::string host = words.front();
    const std::size_t colon = host.find(':');
    if (colon != std::string::npos && host.find(':', colon + 1) == std::string::npos) {
      file.slots = true;
      host.resize(colon);
    }
    if (!can_be_started(host)) refuse_host(host, fmt::format("{} line {}", origin, number));
    const bool once = found.add(host);
    file.slots = file.slots || words.size() > 1 || !once;  // PBS writes a line for each slot
    if (found.hosts.size() > k_max_hosts)
      throw UsageError(fmt::format("{} names more than {} hosts", origin, k_max_hosts));
  }
  if (found.hosts.empty()) throw UsageError(origin + " names no host", "write one host on each line");
  file.hosts = std::move(found.hosts);
  return file;
}

std::vector<std::string> parse_hosts(std::string_view text, const std::string& origin) {
  HostSet found;
  try {
    for (const std::string& host : expand_hostlist(text, origin)) {
      if (!can_be_started(host)) refuse_host(host, origin);
      if (found.add(host)) continue;
      throw UsageError(fmt::format("{} names {} twice, but one ddprun is started on each host", origin, host),
                       "--nproc-per-node sets the number of workers on each host");
    }
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(error.what(), k_list_hint);
  }
  if (found.hosts.empty())
    throw UsageError(origin + " names no host", "give host names, as in --hosts n1,n2");
  return std::move(found.hosts);
}

bool is_started_agent(const std::vector<std::string>& arguments) {
  return !arguments.empty() && arguments.front() == k_started_by_option;
}

}  // namespace ddprun::allocation
