#include "check/render_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "allocation/hostlist.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "check/record_fields.hpp"
#include "facts/proc_text.hpp"
#include "render/text_table.hpp"

namespace ddprun::check {

namespace {

constexpr std::size_t k_most_rows = 64;  // limit of nodes' rows; the rest is in --check=json
constexpr int k_format = 1;

std::string name_of(Mark mark) { return mark == Mark::error ? "error" : "warning"; }

std::string describe_seconds(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.0f} us", seconds * 1e6) : fmt::format("{:.3g} ms", seconds * 1e3);
}

const Connection* connection_to_first(const HostRecord& record) {
  const auto found =
      std::ranges::find_if(record.connections, [](const Connection& each) { return each.to_rank == 0; });
  return found == record.connections.end() ? nullptr : &*found;
}

std::string describe_rate(const HostRecord& record) {
  for (const Connection& connection : record.connections) {
    if (connection.rate > 0)
      return fmt::format("{}/s to {}", facts::describe_bytes(static_cast<std::uint64_t>(connection.rate)),
                         printable(connection.to, 40));
  }
  return {};
}

std::string describe_clock(const HostRecord& record) {
  if (record.clock_uncertainty <= 0) return {};
  const double offset = -record.clock_offset;
  if (std::abs(offset) <= record.clock_uncertainty || std::abs(offset) < 1e-3) return "0 s";
  return fmt::format("{:+.3f} s", offset);
}

std::string describe_latency(const HostRecord& record) {
  const Connection* const first = connection_to_first(record);
  if (first == nullptr || first->latency <= 0) return {};
  return describe_seconds(first->latency);
}

std::string describe_room(const HostRecord& record) {
  const auto found = std::ranges::find_if(
      record.folders, [](const Folder& each) { return each.purpose == "temporary files"; });
  return found == record.folders.end() ? std::string() : facts::describe_bytes(found->free);
}

std::string describe_gpus(const HostRecord& record) {
  const std::size_t count =
      std::max(record.gpus.size(), static_cast<std::size_t>(std::max(record.visible_gpus, 0)));
  return count == 0 ? std::string() : std::to_string(count);
}

std::string mark_of(const HostRecord& record, const std::vector<Finding>& findings) {
  std::string worst;
  for (const Finding& finding : findings) {
    if (std::ranges::find(finding.hosts, record.host) == finding.hosts.end()) continue;
    if (finding.mark == Mark::error) return "error";
    worst = "warning";
  }
  return worst;
}

using Row = std::vector<std::string>;

Row row_of(const HostRecord& record, const std::vector<Finding>& findings) {
  return {printable(record.host, 64),
          printable(record.address.empty() ? "" : record.address + " " + record.interface, 64),
          printable(record.switches, 64),
          printable(record.nvlink_domain, 64),
          record.mtu == 0 ? "" : std::to_string(record.mtu),
          describe_latency(record),
          describe_rate(record),
          describe_clock(record),
          std::to_string(record.cpus),
          facts::describe_bytes(record.free_memory),
          describe_room(record),
          describe_gpus(record),
          mark_of(record, findings)};
}

void add_nodes(const CheckResult& result, render::CellTable& table) {
  std::vector<Row> rows;
  for (const HostRecord& record : result.records) {
    if (rows.size() < k_most_rows) rows.push_back(row_of(record, result.findings));
  }
  Row names{"node",  "address", "switches",    "NVLink domain", "MTU",  "latency", "bandwidth",
            "clock", "CPUs",    "memory free", "TMPDIR free",   "GPUs", ""};
  for (std::size_t column = 0; column < names.size(); ++column) {
    const bool empty = std::ranges::all_of(rows, [&](const Row& row) { return row[column].empty(); });
    if (empty) names[column].clear();
  }
  rows.insert(rows.begin(), names);
  for (const Row& row : rows) {
    std::vector<render::CellTable::Cell> cells;
    for (const std::string& cell : row) cells.push_back({cell});
    table.row(std::move(cells));
  }
  if (result.records.size() > k_most_rows)
    table.line(fmt::format("and {} more", result.records.size() - k_most_rows));
}

// Returns "Python 3.11, torch 2.13.0" if all have the same; a difference is a finding.
std::string describe_same(const std::vector<HostRecord>& records) {
  std::vector<std::string> parts;
  for (const auto& entry : records.front().versions) {
    const bool same = std::ranges::all_of(records, [&](const HostRecord& each) {
      const auto found = each.versions.find(entry.first);
      return found != each.versions.end() && found->second == entry.second;
    });
    if (same && !entry.second.empty()) parts.push_back(entry.first + " " + printable(entry.second, 64));
  }
  return join(parts, ", ");
}

// Returns one line for each, for grep.
std::string describe(const Finding& finding) {
  const std::string hosts = printable(allocation::compress_hostlist(finding.hosts), 400);
  return fmt::format("  {}: {}: {}: {}\n    fix: {}\n", name_of(finding.mark), hosts, finding.subject,
                     finding.what, finding.fix);
}

std::string sum_up(const CheckResult& result) {
  const auto errors =
      std::ranges::count_if(result.findings, [](const Finding& each) { return each.mark == Mark::error; });
  const auto warnings = static_cast<std::ptrdiff_t>(result.findings.size()) - errors;
  const std::string checked = fmt::format("checked {} in {:.1f} s",
                                          count_of(static_cast<std::int64_t>(result.records.size()), "node"),
                                          static_cast<double>(result.took.count()) / 1000);
  if (errors == 0 && warnings == 0) return checked + ": nothing is wrong";
  return fmt::format("{}: {} and {}{}", checked, count_of(errors, "error"), count_of(warnings, "warning"),
                     errors > 0 ? "; a job would fail" : "");
}

}  // namespace

bool fails(const CheckResult& result, bool strict) {
  return std::ranges::any_of(result.findings,
                             [&](const Finding& each) { return strict || each.mark == Mark::error; });
}

std::vector<std::string> failing_nodes(const CheckResult& result) {
  std::vector<std::string> nodes;
  for (const HostRecord& record : result.records) {
    if (mark_of(record, result.findings) == name_of(Mark::error)) nodes.push_back(record.host);
  }
  // A node that gave no record has only the finding.
  for (const Finding& finding : result.findings) {
    for (const std::string& host : finding.hosts) {
      const bool known = std::ranges::find(nodes, host) != nodes.end();
      if (finding.mark == Mark::error && !known) nodes.push_back(host);
    }
  }
  return nodes;
}

std::string render_check_text(const CheckResult& result) {
  render::CellTable nodes;
  add_nodes(result, nodes);
  std::string text = nodes.text(0);
  if (const std::string same = describe_same(result.records); !same.empty())
    text += "same on all nodes: " + same + "\n";
  text += describe_deep(result.deep);
  for (const Finding& finding : result.findings) text += describe(finding);
  if (result.deep_left_out) text += "torch was not tried, because of the errors\n";
  return text + sum_up(result) + "\n";
}

std::string render_check_json(const CheckResult& result, bool strict) {
  nlohmann::json json{{"format", k_format},
                      {"result", fails(result, strict) ? "failed" : "passed"},
                      {"seconds", static_cast<double>(result.took.count()) / 1000},
                      {"nodes", result.records},
                      {"deep", result.deep},
                      {"findings", nlohmann::json::array()}};
  for (const Finding& finding : result.findings) {
    json["findings"].push_back({{"mark", name_of(finding.mark)},
                                {"subject", finding.subject},
                                {"nodes", finding.hosts},
                                {"what", finding.what},
                                {"fix", finding.fix}});
  }
  return write_json_text(json, 2) + "\n";
}

}  // namespace ddprun::check
