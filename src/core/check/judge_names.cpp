#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "check/finding.hpp"

namespace ddprun::check {

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
