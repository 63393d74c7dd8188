#include "allocation/asked_tasks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/hostlist.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace ddprun::allocation {

std::string write_asked_tasks(const std::vector<Host>& hosts) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < hosts.size();) {
    const int tasks = hosts[i].tasks;
    std::vector<std::string> names;
    for (; i < hosts.size() && hosts[i].tasks == tasks; ++i) names.push_back(hosts[i].name);
    runs.push_back(fmt::format("{}*{}", tasks, compress_hostlist(names)));
  }
  return join(runs, " ");
}

std::vector<Host> parse_asked_tasks(std::string_view text, const std::string& origin) {
  std::vector<Host> hosts;
  for (const std::string& run : split_words(text)) {
    const std::size_t star = run.find('*');
    const auto tasks = parse_integer(run.substr(0, star));
    if (star == std::string::npos || !tasks || *tasks < 1 || *tasks > 1 << 20)
      throw Error(fmt::format("{} is malformed: '{}'", origin, printable(run, 80)));
    const std::string list = run.substr(star + 1);
    if (count_hostlist(list, origin) + hosts.size() > k_max_hosts)
      throw Error(fmt::format("{} names more than {} hosts", origin, k_max_hosts));
    for (std::string& host : expand_hostlist(list, origin))
      hosts.push_back({std::move(host), static_cast<int>(*tasks)});
  }
  return hosts;
}

int count_asked_tasks(const std::vector<Host>& asked, std::string_view host) {
  const auto found =
      std::ranges::find_if(asked, [&](const Host& each) { return same_host(each.name, host); });
  return found == asked.end() ? 0 : found->tasks;
}

bool asks_for_several(const Allocation& allocation) {
  return allocation.asked_tasks &&
         std::ranges::any_of(allocation.asked_tasks->value, [](const Host& host) { return host.tasks > 1; });
}

std::vector<int> asked_tasks_of_hosts(const Allocation& allocation) {
  std::vector<int> tasks;
  if (!allocation.asked_tasks) return tasks;
  const std::vector<Host>& asked = allocation.asked_tasks->value;
  const std::vector<Host>& hosts = allocation.hosts.value;
  for (std::size_t i = 0; i < hosts.size(); ++i) {  // both are usually in the same order
    const bool same = i < asked.size() && asked[i].name == hosts[i].name;
    tasks.push_back(same ? asked[i].tasks : count_asked_tasks(asked, hosts[i].name));
    if (tasks.back() == 0) return {};
  }
  return tasks;
}

}  // namespace ddprun::allocation
