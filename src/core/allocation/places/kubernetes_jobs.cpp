#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "allocation/places/place_rows.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation::place_rows {

namespace {

struct VolcanoTask {
  std::string name;  // "WORKER", "ROLE_1", as its variable has it
  std::string base;  // "ROLE" of "ROLE_1": torchx makes a task for each replica
  int replica = 0;   // 1 of "ROLE_1"; 0 where there is none
  std::vector<std::string> hosts;
  std::string origin;
};

VolcanoTask read_volcano_task(const std::string& variable, const std::string& list) {
  constexpr std::size_t k_around = std::string_view("VC__HOSTS").size();
  VolcanoTask task;
  task.name = variable.substr(3, variable.size() - k_around);
  task.origin = variable;
  task.hosts = read_host_list(sourced(list, variable), ',').value;
  const std::size_t end = task.name.rfind('_');
  const auto replica = end == std::string::npos ? std::nullopt : parse_integer(task.name.substr(end + 1));
  task.base = replica ? task.name.substr(0, end) : task.name;
  task.replica = replica ? static_cast<int>(std::clamp<std::int64_t>(*replica, 0, k_most)) : 0;
  return task;
}

std::vector<VolcanoTask> read_volcano_tasks(const facts::Environment& environment) {
  std::vector<VolcanoTask> tasks;
  for (const auto& [name, value] : environment) {
    if (name.starts_with("VC_") && name.ends_with("_HOSTS") && name.size() > 9 && !value.empty())
      tasks.push_back(read_volcano_task(name, value));
  }
  return tasks;
}

bool has_host(const VolcanoTask& task, const std::string& host) {
  return std::any_of(task.hosts.begin(), task.hosts.end(),
                     [&](const std::string& each) { return same_host(each, host); });
}

// Replicas of one task that torchx made several of, or a master and its workers.
bool train_together(const VolcanoTask& one, const VolcanoTask& other) {
  const auto is_pair = [](const VolcanoTask& task) { return task.base == "MASTER" || task.base == "WORKER"; };
  return one.base == other.base || (is_pair(one) && is_pair(other));
}

bool comes_first(const VolcanoTask& one, const VolcanoTask& other) {
  return one.base != other.base ? one.base < other.base : one.replica < other.replica;
}

const VolcanoTask* find_own_task(const std::vector<VolcanoTask>& tasks, const std::string& host) {
  const auto own =
      std::find_if(tasks.begin(), tasks.end(), [&](const VolcanoTask& task) { return has_host(task, host); });
  return own == tasks.end() ? nullptr : &*own;
}

std::vector<VolcanoTask> choose_tasks(const std::vector<VolcanoTask>& tasks, const VolcanoTask& own) {
  std::vector<VolcanoTask> chosen;
  for (const VolcanoTask& task : tasks) {
    if (train_together(task, own)) chosen.push_back(task);
  }
  std::stable_sort(chosen.begin(), chosen.end(), comes_first);
  return chosen;
}

Sourced<std::vector<std::string>> join_hosts(const std::vector<VolcanoTask>& tasks) {
  Sourced<std::vector<std::string>> hosts;
  for (const VolcanoTask& task : tasks) {
    hosts.origin += (hosts.origin.empty() ? "" : ", ") + task.origin;
    hosts.value.insert(hosts.value.end(), task.hosts.begin(), task.hosts.end());
  }
  if (tasks.size() > 2) hosts.origin = fmt::format("{} to {}", tasks.front().origin, tasks.back().origin);
  return hosts;
}

// Returns the rank. VC_TASK_INDEX counts within a task: it says nothing if there are several.
Sourced<int> find_volcano_rank(const PlaceView& view, const std::vector<std::string>& hosts, bool one_task) {
  const auto own = std::find_if(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return same_host(host, view.snapshot.host.name);
  });
  if (own != hosts.end()) return sourced(static_cast<int>(own - hosts.begin()), "host name");
  const auto index = read_index(view.variables, "VC_TASK_INDEX");
  if (one_task && index) return *index;
  throw Error(fmt::format("this host, {}, is not in any of Volcano's VC_..._HOSTS", view.snapshot.host.name),
              "give --nnodes, --node-rank and --master-addr; to use this host alone, add --nnodes 1");
}

}  // namespace

std::optional<FoundPlace> read_volcano(const PlaceView& view) {
  const Variables& variables = view.variables;
  // Its pytorch plug-in numbers the pods itself.
  const bool numbered = variables.has("RANK") && variables.has("WORLD_SIZE") && variables.has("MASTER_ADDR");
  if (numbered || !(variables.has("VC_TASK_INDEX") || variables.has("VK_TASK_INDEX"))) return std::nullopt;
  const std::vector<VolcanoTask> tasks = read_volcano_tasks(view.snapshot.environment);
  if (tasks.empty()) return std::nullopt;
  const VolcanoTask* const own = find_own_task(tasks, view.snapshot.host.name);
  const std::vector<VolcanoTask> chosen = choose_tasks(tasks, own != nullptr ? *own : tasks.front());
  FoundPlace place;
  place.name = sourced(std::string("Volcano"), "VC_TASK_INDEX");
  place.hosts = join_hosts(chosen);
  place.nodes = sourced(static_cast<int>(place.hosts->value.size()), place.hosts->origin);
  if (place.nodes.value < 2) return place;
  place.rank = find_volcano_rank(view, place.hosts->value, tasks.size() == 1);
  place.address = sourced(place.hosts->value.front(), place.hosts->origin);
  return place;
}

namespace {

constexpr const char* k_hosts_file = "/etc/hosts";

// Returns ".svc.ns.svc.cluster.local" of this pod's line in /etc/hosts, which kubelet writes if the pod has a
// subdomain; empty if it has none.
std::string find_own_domain(const facts::Snapshot& snapshot) {
  const auto file = snapshot.files.find(k_hosts_file);
  if (file == snapshot.files.end()) return {};
  const std::string start = snapshot.host.name + ".";
  for (const std::string& line : split(file->second, '\n')) {
    for (const std::string& word : split_words(line.substr(0, line.find('#')))) {
      if (word.starts_with(start)) return word.substr(start.size() - 1);
    }
  }
  return {};
}

// Counts by the flag, else by one of the names that manifests give it.
std::optional<Sourced<int>> count_pods(const PlaceView& view) {
  if (view.options.nodes) return view.options.nodes;
  if (const auto count = find_node_count(view.variables)) return count;
  return read_count(view.variables, "WORLD_SIZE");
}

}  // namespace

std::optional<FoundPlace> read_indexed_job(const PlaceView& view) {
  const auto index = read_index(view.variables, "JOB_COMPLETION_INDEX");
  const std::string& own = view.snapshot.host.name;
  const std::string ending = index ? fmt::format("-{}", index->value) : std::string();
  if (!index || own.size() <= ending.size() || !own.ends_with(ending)) return std::nullopt;
  const auto count = count_pods(view);
  const std::string domain = find_own_domain(view.snapshot);
  if (!count) {
    if (domain.empty()) return std::nullopt;  // no pod can find another by name
    throw Error(
        fmt::format("JOB_COMPLETION_INDEX={} is set, but not how many pods the job has", index->value),
        "add --nnodes with the completions of the job, or --nnodes 1 to use this pod alone");
  }
  FoundPlace place = make_place("Indexed Job", index->origin, *count);
  place.rank = *index;
  const std::string job = own.substr(0, own.size() - ending.size());
  place.job = sourced(job, "host name");
  place.address =
      sourced(read_host_text(job + "-0" + domain, "the host name").host,
              domain.empty() ? std::string("host name") : fmt::format("host name and {}", k_hosts_file));
  return place;
}

}  // namespace ddprun::allocation::place_rows
