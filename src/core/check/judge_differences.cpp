#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "allocation/hostlist.hpp"
#include "base/text.hpp"
#include "check/finding.hpp"
#include "check/xid.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::check {

namespace {

constexpr std::size_t k_values_shown = 4;

using HostsByValue = std::map<std::string, std::vector<std::string>>;

// Property that has to be equal on all nodes, whether the job fails if it is not, and the remedy.
struct Alike {
  std::string name;
  Mark mark;
  const char* fix;
};

const Alike k_versions[] = {
    {"ddprun", Mark::error, "install one version on all nodes, or start the one of a shared folder"},
    {"Python", Mark::error, "use one Python environment on all nodes (a shared folder, or the same module)"},
    {"torch", Mark::error,
     "use one Python environment on all nodes: workers of different torch versions can wait for each other "
     "forever"},
    {"NCCL", Mark::error, "use one Python environment on all nodes"},
    {"NVIDIA driver", Mark::warning, "ask the site for nodes with one driver"},
    {"CPU", Mark::warning,
     "ask the scheduler for nodes of one kind (--constraint): the slowest sets the pace"},
    {"kernel", Mark::warning, "report it to the site if a problem occurs on some of these nodes only"},
};

// Sorts the fewest first: they are what a reader looks for.
std::vector<std::pair<std::string, std::vector<std::string>>> by_rarity(const HostsByValue& groups) {
  std::vector<std::pair<std::string, std::vector<std::string>>> sorted(groups.begin(), groups.end());
  std::ranges::stable_sort(
      sorted, [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); });
  return sorted;
}

void report_unlike(const std::vector<HostRecord>& records, const HostsByValue& groups, const Alike& rule,
                   std::vector<Finding>& findings) {
  if (groups.size() < 2) return;
  const auto sorted = by_rarity(groups);
  std::vector<std::string> parts;
  for (const auto& [value, hosts] : sorted) {
    if (parts.size() == k_values_shown) break;
    parts.push_back(fmt::format("{} on {}", value.empty() ? "none" : printable(value, 80),
                                printable(allocation::compress_hostlist(hosts), 120)));
  }
  if (sorted.size() > parts.size()) parts.push_back(fmt::format("{} more", sorted.size() - parts.size()));
  // If two halves differ, neither is the odd one.
  const bool halves = sorted.front().second.size() == sorted.back().second.size();
  std::vector<std::string> odd = halves ? std::vector<std::string>() : sorted.front().second;
  for (const HostRecord& record : records) {
    if (halves) odd.push_back(record.host);
  }
  findings.push_back({rule.mark, rule.name, odd,
                      fmt::format("the nodes differ in {}: {}", rule.name, join(parts, ", ")), rule.fix});
}

template <class Value>
HostsByValue group(const std::vector<HostRecord>& records, Value value) {
  HostsByValue groups;
  for (const HostRecord& record : records) groups[value(record)].push_back(record.host);
  return groups;
}

std::string version_of(const HostRecord& record, const std::string& name) {
  const auto found = record.versions.find(name);
  return found == record.versions.end() ? std::string() : found->second;
}

std::string list_gpus(const HostRecord& record) {
  if (record.gpus.empty()) return fmt::format("{}", record.visible_gpus);
  std::map<std::string, int> models;
  for (const GpuHealth& gpu : record.gpus) ++models[gpu.model];
  std::vector<std::string> parts;
  for (const auto& [model, count] : models) parts.push_back(fmt::format("{} {}", count, model));
  return join(parts, " and ");
}

// Rounds to the nearest 8 GiB: firmware and kernels reserve a little more on one node than on its neighbour.
std::string describe_memory(const HostRecord& record) {
  constexpr std::uint64_t k_step = std::uint64_t{8} << 30;
  return record.memory < k_step ? std::string("less than 8 GiB")
                                : facts::describe_bytes((record.memory + k_step / 2) / k_step * k_step);
}

}  // namespace

void judge_likeness(const std::vector<HostRecord>& records, std::vector<Finding>& findings) {
  if (records.size() < 2) return;
  for (const Alike& rule : k_versions)
    report_unlike(records,
                  group(records, [&](const HostRecord& each) { return version_of(each, rule.name); }), rule,
                  findings);
  report_unlike(records, group(records, [](const HostRecord& each) { return fmt::format("{}", each.mtu); }),
                {"MTU", Mark::warning, "give all interfaces of this network one MTU (ip link set mtu)"},
                findings);
  report_unlike(records, group(records, list_gpus),
                {"GPUs", Mark::error, "ask the scheduler for nodes of one kind, or leave the odd ones out"},
                findings);
  report_unlike(records, group(records, [](const HostRecord& each) { return fmt::format("{}", each.cpus); }),
                {"CPUs", Mark::warning, "ask for the same number on every node (--exclusive, ncpus)"},
                findings);
  report_unlike(records, group(records, describe_memory),
                {"memory", Mark::warning, "ask for the same amount on every node (--mem, mem=)"}, findings);
}

// Judgement of what a node has lost since the job began: its GPUs, their links, its network, CPUs and memory,
// and of the errors of its GPUs in the kernel's log.

namespace {

const GpuHealth* find_gpu(const HostRecord& record, const std::string& address) {
  const auto found = std::ranges::find(record.gpus, address, &GpuHealth::address);
  return found == record.gpus.end() ? nullptr : &*found;
}

void judge_gpu(const GpuHealth& before, const HostRecord& now, std::vector<Finding>& findings) {
  const auto add = [&](std::string what, const char* fix, Mark mark = Mark::warning) {
    report(findings, mark, "GPU", now.host, fmt::format("GPU {}: {}", before.address, what), fix);
  };
  const GpuHealth* const gpu = find_gpu(now, before.address);
  if (gpu == nullptr)
    return add("it is not there any more", "have the site reset the node; leave it out until then",
               Mark::error);
  if (gpu->link_width > 0 && gpu->link_width < before.link_width)
    add(fmt::format("PCIe runs with {} lanes, {} before", gpu->link_width, before.link_width),
        "have the site reset or reseat it");
  if (gpu->nvlinks < before.nvlinks)
    add(fmt::format("{} NVLinks are up, {} before", gpu->nvlinks, before.nvlinks),
        "have the site reset the node (nvidia-smi nvlink -s shows which)");
  if (gpu->rows_pending && !before.rows_pending)
    add("a remapped memory row waits for a reset", "have the site reset it (nvidia-smi -r)");
}

void judge_card(const std::string& name, int before, const HostRecord& now, std::vector<Finding>& findings) {
  const auto found = now.cards.find(name);
  const int speed = found == now.cards.end() ? -1 : found->second;
  const bool down = speed < 0 && before >= 0, slower = speed > 0 && speed < before;
  if (!down && !slower) return;
  report(findings, Mark::warning, "network", now.host,
         down ? fmt::format("{} has no link any more", printable(name, 32))
              : fmt::format("{} runs at {} Mbit/s, {} before", printable(name, 32), speed, before),
         "have the site look at its card and cable");
}

// Errors of before the first attempt are another job's, and of a GPU that this job cannot ask for as well.
void judge_xids(const HostRecord& before, const HostRecord& now, std::vector<Finding>& findings) {
  if (before.kernel_log.newest < 0) return;
  for (const Xid& xid : now.kernel_log.xids) {
    const XidMeaning* const fault = find_hardware_fault(xid);
    if (fault == nullptr || xid.sequence <= before.kernel_log.newest || find_gpu(before, xid.gpu) == nullptr)
      continue;
    report(findings, fault->mark, "GPU", now.host, describe(xid, *fault), fault->fix);
  }
}

std::vector<Finding> find_errors(const HostRecord& record) {
  std::vector<Finding> findings = judge_alone(record);
  std::erase_if(findings, [](const Finding& each) { return each.mark != Mark::error; });
  return findings;
}

}  // namespace

std::vector<Finding> find_faults(const HostRecord& before, const HostRecord& now) {
  std::vector<Finding> findings;
  judge_change(before, now, findings);  // before the GPUs: the kernel's log has the reason of a loss
  // The job was started with the errors of before.
  const std::vector<Finding> known = find_errors(before);
  for (Finding& each : find_errors(now)) {
    const bool is_known = std::ranges::any_of(known, [&](const Finding& other) {
      return other.subject == each.subject && (other.subject != "GPU" || other.what == each.what);
    });
    if (!is_known) findings.push_back(std::move(each));
  }
  std::ranges::stable_sort(findings, {}, [](const Finding& each) { return each.mark != Mark::error; });
  return findings;
}

void judge_change(const HostRecord& before, const HostRecord& now, std::vector<Finding>& findings) {
  judge_xids(before, now, findings);
  // Without any the driver has not answered in time, or its list of GPUs says why.
  if (!now.gpus.empty() && now.gpu_problem.empty() && now.lost_gpus.size() <= before.lost_gpus.size()) {
    for (const GpuHealth& gpu : before.gpus) judge_gpu(gpu, now, findings);
  }
  for (const auto& [card, speed] : before.cards) judge_card(card, speed, now, findings);
  if (now.online_cpus < before.online_cpus) {
    report(findings, Mark::warning, "CPUs", now.host,
           fmt::format("{} CPUs are online, {} before", now.online_cpus, before.online_cpus),
           "have the site see why (machine checks in the kernel's log)");
  }
}

std::optional<Finding> judge_memory(const std::string& host, std::uint64_t used, std::uint64_t free) {
  if (free >= used) return std::nullopt;
  return Finding{Mark::warning,
                 "memory",
                 {host},
                 fmt::format("{} are free, and the workers had used {}", facts::describe_bytes(free),
                             facts::describe_bytes(used)),
                 "see what uses it (ps, ls /dev/shm)"};
}

namespace {

constexpr double k_slow_name = 1.0;  // seconds
constexpr int k_many_domains = 6;    // resolv.conf(5): each is asked for a name without dots

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }
bool is_ipv6(const std::string& address) { return address.find(':') != std::string::npos; }

bool has(const std::vector<std::string>& addresses, const std::string& address) {
  return std::ranges::find(addresses, address) != addresses.end();
}

// Returns the mark of a bad name: gloo binds to the address of the node's own name, unless it is told an
// interface.
Mark without_interface(const HostRecord& record) {
  return record.variables.contains("GLOO_SOCKET_IFNAME") ? Mark::warning : Mark::error;
}

void judge_own_name(const HostRecord& record, std::vector<Finding>& findings) {
  const std::vector<std::string>& found = record.name_addresses;
  const std::string name = printable(record.host, 80);
  if (found.empty()) {
    report(findings, without_interface(record), "names", record.host,
           fmt::format("the node's own name {} does not resolve there", name),
           "add it to /etc/hosts or DNS; GLOO_SOCKET_IFNAME=<interface> avoids the need for gloo");
    return;
  }
  const std::string listed = printable(join(found, ", "), 120);
  if (std::ranges::all_of(found, is_loopback)) {
    report(findings, without_interface(record), "names", record.host,
           fmt::format("its own name resolves to {}, an address that no other node reaches", listed),
           "remove that line from /etc/hosts; GLOO_SOCKET_IFNAME=<interface> avoids the need for gloo");
    return;
  }
  const bool any_own =
      std::ranges::any_of(found, [&](const std::string& address) { return has(record.addresses, address); });
  if (!any_own) {
    report(findings, without_interface(record), "names", record.host,
           fmt::format("its own name resolves to {}, which none of its interfaces has", listed),
           "correct /etc/hosts or DNS");
    return;
  }
  if (is_ipv6(found.front()) && !has(record.addresses, found.front())) {
    report(findings, Mark::warning, "names", record.host,
           fmt::format("its own name resolves to the IPv6 address {} first, which none of its interfaces has",
                       printable(found.front(), 60)),
           "correct DNS, or prefer IPv4 in /etc/gai.conf");
  }
}

void judge_name_service(const HostRecord& record, std::vector<Finding>& findings) {
  const double slowest = std::max(record.name_time, record.reverse_time);
  if (slowest >= k_slow_name) {
    const bool reverse = record.reverse_time >= record.name_time;
    report(findings, Mark::warning, "names", record.host,
           fmt::format("the name service needs {:.0f} s or more for the {}", std::floor(slowest),
                       reverse ? "name of the node's own address" : "node's own name"),
           "check nameserver and options timeout in /etc/resolv.conf; every connection of torch's store "
           "waits for it");
  }
  if (record.search_domains > k_many_domains) {
    report(findings, Mark::warning, "names", record.host,
           fmt::format("/etc/resolv.conf searches {} domains for each short name", record.search_domains),
           "shorten its search line");
  }
}

void judge_names_of_others(const HostRecord& record, const Connection& connection,
                           const std::vector<std::string>& addresses, std::vector<Finding>& findings) {
  const std::vector<std::string>& found = connection.name_addresses;
  if (found.empty()) return;  // addresses are used where names are unknown
  const bool right =
      std::ranges::any_of(found, [&](const std::string& address) { return has(addresses, address); });
  if (right) return;
  report(findings, Mark::warning, "names", record.host,
         fmt::format("the name {} resolves to {} there, which is not that node", printable(connection.to, 80),
                     printable(join(found, ", "), 120)),
         "correct /etc/hosts or DNS on that node");
}

}  // namespace

void judge_names(const HostRecord& record, bool several, std::vector<Finding>& findings) {
  if (!several) return;
  judge_own_name(record, findings);
  judge_name_service(record, findings);
}

void judge_peer_names(const std::vector<HostRecord>& records, std::vector<Finding>& findings) {
  for (const HostRecord& record : records) {
    for (const Connection& connection : record.connections) {
      const auto peer = std::ranges::find_if(
          records, [&](const HostRecord& each) { return each.rank == connection.to_rank; });
      if (peer != records.end()) judge_names_of_others(record, connection, peer->addresses, findings);
    }
  }
}

}  // namespace ddprun::check
