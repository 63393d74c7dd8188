#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "check/finding.hpp"
#include "facts/memory_text.hpp"

namespace ddprun::check {

namespace {

constexpr double k_long_latency = 0.02;      // seconds: another site, or a broken route
constexpr double k_times_the_latency = 10;   // factor over the others' median, and
constexpr double k_notable_latency = 0.002;  // lower limit of a notable latency
constexpr double k_part_of_the_rate = 0.25;  // fraction of the others' median
constexpr double k_slow_rate = 10e6;         // bytes per second: a 100 Mbit/s link
constexpr double k_clock_skew = 1.0;         // seconds

template <class Value>
double median(const std::vector<HostRecord>& records, Value value) {
  std::vector<double> values;
  for (const HostRecord& record : records) {
    for (const Connection& connection : record.connections) {
      if (connection.problem.empty() && value(connection) > 0) values.push_back(value(connection));
    }
  }
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool is_slow(const Connection& connection, double usual) {
  if (connection.rate <= 0) return false;
  return connection.rate < k_slow_rate || connection.rate < usual * k_part_of_the_rate;
}

bool is_far(const Connection& connection, double usual) {
  const bool odd = connection.latency > k_notable_latency && connection.latency > usual * k_times_the_latency;
  return odd || connection.latency > k_long_latency;
}

// The medians of all connections.
struct Typical {
  double latency = 0;
  double rate = 0;
};

Typical typical_of(const std::vector<HostRecord>& records) {
  return {median(records, [](const Connection& each) { return each.latency; }),
          median(records, [](const Connection& each) { return each.rate; })};
}

std::string name_end(const Connection& connection) {
  return fmt::format("{} ({})", printable(connection.to, 80), connection.address);
}

void judge_connection(const HostRecord& record, const Connection& connection, const Typical& typical,
                      std::vector<Finding>& findings) {
  const std::string end = name_end(connection);
  if (!connection.problem.empty()) {
    report(findings, Mark::error, "connection", record.host,
           fmt::format("cannot connect to {}, port {}: {}", end, connection.port, connection.problem),
           "open all TCP ports between the job's nodes in the firewall, those of "
           "/proc/sys/net/ipv4/ip_local_port_range at least; or choose another network with --local-addr");
    return;
  }
  if (connection.stalled) {
    report(findings, Mark::error, "connection", record.host,
           fmt::format("short messages arrive at {}, long ones do not", end),
           "give all interfaces and switches on the way the same MTU (ip link show)");
    return;
  }
  if (is_far(connection, typical.latency)) {
    report(findings, Mark::warning, "latency", record.host,
           fmt::format("a message to {} and its answer need {:.3g} ms; the median of all is {:.2g} ms", end,
                       connection.latency * 1e3, typical.latency * 1e3),
           "check its route (ip route get, tracepath), or leave that node out");
  }
  if (is_slow(connection, typical.rate)) {
    report(findings, Mark::warning, "bandwidth", record.host,
           fmt::format("{}/s to {}; the median of all is {}/s",
                       facts::describe_bytes(static_cast<std::uint64_t>(connection.rate)), end,
                       facts::describe_bytes(static_cast<std::uint64_t>(typical.rate))),
           "check the link's speed (ethtool), cable and switch, or leave that node out");
  }
}

void judge_clock(const HostRecord& record, const std::string& first, std::vector<Finding>& findings) {
  if (record.clock_uncertainty <= 0) return;
  const double skew = std::abs(record.clock_offset) - record.clock_uncertainty;
  if (skew < k_clock_skew) return;
  report(findings, Mark::warning, "clock", record.host,
         fmt::format("its clock is {:.3g} s {} that of {}", std::abs(record.clock_offset),
                     record.clock_offset > 0 ? "behind" : "ahead of", printable(first, 80)),
         "have the site synchronise the clocks (chronyc tracking): log times, munge and time limits depend "
         "on them");
}

}  // namespace

std::vector<int> doubtful_connections(const std::vector<HostRecord>& records) {
  const Typical typical = typical_of(records);
  std::vector<int> ranks;
  for (const HostRecord& record : records) {
    const bool doubtful = std::ranges::any_of(record.connections, [&](const Connection& each) {
      return !each.problem.empty() || each.stalled || is_slow(each, typical.rate) ||
             is_far(each, typical.latency);
    });
    if (doubtful) ranks.push_back(record.rank);
  }
  return ranks;
}

void judge_connections(const std::vector<HostRecord>& records, std::vector<Finding>& findings) {
  const Typical typical = typical_of(records);
  for (const HostRecord& record : records) {
    for (const Connection& connection : record.connections)
      judge_connection(record, connection, typical, findings);
    judge_clock(record, records.front().host, findings);
  }
  judge_peer_names(records, findings);
}

}  // namespace ddprun::check
