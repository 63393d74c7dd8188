// Status of a job at this moment, for --status.
// Each agent reports its own workers; the coordinator asks all of them and adds what it knows of the job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "status/rank_view.hpp"

namespace ddprun::status {

struct WorkerStatus {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;                                 // 0: it has ended
  std::optional<Milliseconds> output_age{};    // since its last output; nullopt: none was seen
  std::optional<Milliseconds> cpu_time{};      // CPU time of it and all its descendants
  std::optional<std::uint64_t> memory{};       // their resident bytes; shared pages count for each
  std::string gpu{};                           // its visible devices
  std::optional<int> gpu_percent{};            // the busiest of them, as NVML tells
  std::optional<std::uint64_t> gpu_memory{};   // bytes used on them, by any process
  std::optional<Milliseconds> own_cpu{};       // CPU time of its main process
  std::optional<Milliseconds> cpu_wait{};      // its main thread was ready to run, and waited for a CPU
  std::optional<std::uint64_t> io{};           // bytes read and written by it and all processes below it
  std::optional<Milliseconds> progress_age{};  // since it touched its DDPRUN_PROGRESS_FILE
  std::optional<int> exit_code{};              // set if it has ended by itself
  std::optional<int> waited_percent{};         // share of time that the other ranks waited for it
  std::string standby{};                       // its standby interpreter: "ready"; empty: none is kept
  status::RankView view{};                     // its last collective, its stacks, its process
  friend bool operator==(const WorkerStatus&, const WorkerStatus&) = default;
};

struct NodeStatus {
  std::string host;
  Milliseconds measured{0};  // time of the measurement, on a clock of that host's
  std::vector<WorkerStatus> workers;
  std::string switches{};  // its place in the network, with --order: "s0/leaf1"
  std::string nvlink_domain{};
  friend bool operator==(const NodeStatus&, const NodeStatus&) = default;
};

struct JobStatus {
  std::string job;        // the scheduler's job id, or the name that --rdzv-id gives
  std::string launch_id;  // the same on all hosts
  std::string program;
  std::string host;
  int pid = 0;              // pid of this ddprun
  std::string coordinator;  // the host to ask for all nodes; empty: this is the coordinator
  std::string phase;        // "waiting for 2 of 4 nodes: n[3-4]", "running"
  int attempt = 0;          // from 0
  int restarts = 0;         // used so far; fewer than attempts where the set of nodes changes
  int max_restarts = 0;
  int nodes = 0;                                        // nodes of the job
  int workers = 0;                                      // workers of the job; 0: not known yet
  std::optional<Milliseconds> step{}, step_hour_ago{};  // period of the training's steps
  Milliseconds uptime{0};                               // time since this ddprun began
  std::vector<NodeStatus> here;                         // nodes that have answered, by their first rank
  std::vector<std::string> silent;                      // hosts of the agents that have not
  friend bool operator==(const JobStatus&, const JobStatus&) = default;
};

template <class Handler>
void for_each_worker(const JobStatus& job, const Handler& handle) {
  for (const NodeStatus& node : job.here) {
    for (const WorkerStatus& worker : node.workers) handle(node, worker);
  }
}

inline constexpr std::size_t k_max_node_status = std::size_t{512} << 10;  // bytes of its text

// Renders JSON, in one line without its end; text that is not UTF-8 is replaced. Parsing returns nullopt for
// any other text.
std::string render_status(const NodeStatus& status);
std::optional<NodeStatus> parse_node_status(std::string_view text);
std::string render_status(const JobStatus& status);
void describe_job(OrderedFields& fields, JobStatus& job);
std::optional<JobStatus> parse_job_status(std::string_view text);

// Returns what a rank's processes used between two looks at one job, in percent of one core. nullopt if it is
// not the same worker any more.
std::optional<int> cpu_percent(const JobStatus& now, const JobStatus& before, int rank);
std::string render_heading(const JobStatus& job);  // two lines
std::string render_status_table(const JobStatus& now, const JobStatus& before);
// Renders the output of --status=json, in several lines: an array, with "cpu_percent". As many before as now.
std::string render_status_json(const std::vector<JobStatus>& now, const std::vector<JobStatus>& before);

}  // namespace ddprun::status
