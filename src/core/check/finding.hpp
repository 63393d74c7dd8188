// Findings of a check, for people and programs, and the result of one rank for --check=deep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check/host_record.hpp"

namespace ddprun::check {

// An error: the job would fail or compute nothing. A warning: it would run, slower or at a risk.
enum class Mark { error, warning };

struct Finding {
  Mark mark = Mark::warning;
  std::string subject;             // "connection", "clock", "shared memory": one word or two
  std::vector<std::string> hosts;  // hosts that it is about
  std::string what;                // a sentence without the hosts and without a final stop
  std::string fix;                 // remedy
  friend bool operator==(const Finding&, const Finding&) = default;
};

inline void report(std::vector<Finding>& findings, Mark mark, const char* subject, const std::string& host,
                   std::string what, std::string fix) {
  findings.push_back({mark, subject, {host}, std::move(what), std::move(fix)});
}

// Returns everything that is wrong with these nodes, errors first, equal findings of several nodes as one.
// Empty for sound nodes. `records` in the order of the ranks.
std::vector<Finding> judge(const std::vector<HostRecord>& records);

// Judges one node, without what takes a name service or other nodes, as before a job.
std::vector<Finding> judge_alone(const HostRecord& record);
// Returns what keeps workers from running on a node now and did not before the first attempt, and what it has
// lost since; errors first.
std::vector<Finding> find_faults(const HostRecord& before, const HostRecord& now);
// "GPU 3: GPU is lost", "disk: TMPDIR is full"
std::string reason_of(const Finding& finding);

// Judge one subject each, and add what they find. Subjects of one node:
void judge_surroundings(const HostRecord& record, std::vector<Finding>& findings);
void judge_names(const HostRecord& record, bool several, std::vector<Finding>& findings);
void judge_variables(const HostRecord& record, bool several, std::vector<Finding>& findings);
void judge_gpus(const HostRecord& record, std::vector<Finding>& findings);
// Judges what the node has lost since it was looked at before, and the Xid errors since then. An error keeps
// workers from running there; with a warning another node is only better.
void judge_change(const HostRecord& before, const HostRecord& now, std::vector<Finding>& findings);
// Judges whether as much memory is free as the workers of the attempt before had used.
std::optional<Finding> judge_memory(const std::string& host, std::uint64_t used, std::uint64_t free);
// Subjects that show only among several nodes:
void judge_connections(const std::vector<HostRecord>& records, std::vector<Finding>& findings);
void judge_peer_names(const std::vector<HostRecord>& records, std::vector<Finding>& findings);
void judge_likeness(const std::vector<HostRecord>& records, std::vector<Finding>& findings);

// Returns the variables that are known to slow a training down or to make it fail: HostRecord::variables has
// those that are set.
std::vector<std::string> known_variables();

// Returns the ranks of which a connection fails, or looks slow beside the others: worth a second measurement,
// alone, before it is reported.
std::vector<int> doubtful_connections(const std::vector<HostRecord>& records);

// Result of one rank's measurement with torch (--check=deep).

struct DeepResult {
  int rank = 0;
  std::string host;
  std::string device;         // "NVIDIA H100 80GB HBM3", "CPU"
  std::string backend;        // "nccl", "gloo"; empty: there is one rank only
  double matmul = 0;          // operations per second; 0: no GPU
  std::vector<double> sizes;  // bytes that were reduced over all ranks
  std::vector<double> rates;  // for each of them: bus bandwidth in bytes per second, as nccl-tests count it
  std::string error;          // the first line of what went wrong; empty: nothing
};

// Adds findings for ranks that failed, and GPUs that compute much slower than the others.
void judge_deep(const std::vector<DeepResult>& results, std::vector<Finding>& findings);
// Returns lines for people: bandwidth by size, and the speed of the GPUs. Empty if nothing was measured.
std::string describe_deep(const std::vector<DeepResult>& results);

}  // namespace ddprun::check
