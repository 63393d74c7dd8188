#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "check/finding.hpp"
#include "facts/proc_text.hpp"

namespace ddprun::check {

namespace {

constexpr std::uint64_t k_idle_memory = std::uint64_t{1} << 30;  // most of an idle GPU

class GpuJudge {
 public:
  GpuJudge(const HostRecord& record, const GpuHealth& gpu, std::vector<Finding>& findings)
      : record_(record), gpu_(gpu), findings_(findings) {}

  void judge() {
    if (gpu_.uncorrected > 0) {
      add(Mark::error, fmt::format("{} uncorrected ECC errors", gpu_.uncorrected),
          "have the site reset or replace it; leave the node out until then");
    }
    if (gpu_.rows_failed)
      add(Mark::error, "no spare memory rows are left", "have the site replace it; leave the node out");
    if (gpu_.rows_pending)
      add(Mark::warning, "a remapped memory row waits for a reset", "have the site reset it (nvidia-smi -r)");
    judge_use();
    if (!gpu_.slowed.empty()) {
      add(Mark::warning, "its clocks are lowered: " + join(gpu_.slowed, ", "),
          "have the site check cooling and power; the slowest GPU sets the pace");
    }
    judge_links();
  }

 private:
  void judge_use() {
    if (gpu_.processes > 0) {
      add(Mark::warning,
          fmt::format("{} on it already, with {} in use",
                      gpu_.processes == 1 ? "a process is" : fmt::format("{} processes are", gpu_.processes),
                      facts::describe_bytes(gpu_.used)),
          "see whose they are (nvidia-smi), and end what an earlier job left");
    } else if (gpu_.used > k_idle_memory) {
      add(Mark::warning,
          fmt::format("{} of its memory are in use before the job", facts::describe_bytes(gpu_.used)),
          "see what uses it (nvidia-smi), or have the site reset it");
    }
  }

  void judge_links() {
    if (gpu_.link_width > 0 && gpu_.link_width < gpu_.full_link_width) {
      add(Mark::warning, fmt::format("PCIe runs with {} of {} lanes", gpu_.link_width, gpu_.full_link_width),
          "have the site reseat or replace it");
    }
    if (gpu_.nvlinks_down > 0) {
      add(Mark::warning,
          fmt::format("{} of {} NVLinks are down", gpu_.nvlinks_down, gpu_.nvlinks + gpu_.nvlinks_down),
          "have the site reset the node (nvidia-smi nvlink -s shows which)");
    }
  }

  void add(Mark mark, const std::string& what, const char* fix) {
    report(findings_, mark, "GPU", record_.host, fmt::format("GPU {}: {}", gpu_.address, what), fix);
  }

  const HostRecord& record_;
  const GpuHealth& gpu_;
  std::vector<Finding>& findings_;
};

}  // namespace

void judge_gpus(const HostRecord& record, std::vector<Finding>& findings) {
  for (const std::string& lost : record.lost_gpus) {
    report(findings, Mark::error, "GPU", record.host, printable(lost, 120),
           "have the site reset the node; leave it out until then");
  }
  if (!record.gpu_problem.empty()) {
    report(findings, Mark::error, "GPU", record.host,
           "the NVIDIA driver shows no GPUs: " + printable(record.gpu_problem, 120),
           "run nvidia-smi there; have the site reload the driver");
  }
  for (const GpuHealth& gpu : record.gpus) GpuJudge(record, gpu, findings).judge();
}

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
