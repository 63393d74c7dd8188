#include "status/job_status.hpp"

#include <algorithm>

#include "base/json_fields.hpp"
#include "base/json_text.hpp"

namespace ddprun::status {

namespace {

using OrderedJson = nlohmann::ordered_json;  // printed in the order in which it is read
using Fields = OrderedFields;

constexpr std::size_t k_few_calls = 16;  // limit of each stack, if all of them are too long

// Clock for ddprun processes only: from two values CPU use is computed.
constexpr const char* k_clock = "clock_seconds";

void describe_worker(Fields& fields, WorkerStatus& worker) {
  fields.value("rank", worker.rank);
  fields.value("local_rank", worker.local_rank);
  fields.optional("pid", worker.pid);
  fields.seconds("output_age_seconds", worker.output_age);
  fields.seconds("cpu_seconds", worker.cpu_time);
  fields.optional("memory_bytes", worker.memory);
  fields.optional("gpu", worker.gpu);
  fields.optional("gpu_percent", worker.gpu_percent);
  fields.optional("gpu_memory_bytes", worker.gpu_memory);
  fields.seconds("own_cpu_seconds", worker.own_cpu);
  fields.seconds("cpu_wait_seconds", worker.cpu_wait);
  fields.optional("io_bytes", worker.io);
  fields.seconds("progress_age_seconds", worker.progress_age);
  fields.optional("exit_code", worker.exit_code);
  fields.optional("waited_for_percent", worker.waited_percent);
  fields.optional("standby", worker.standby);
  status::RankView& view = worker.view;
  if (fields.has("at", view != status::RankView{})) fields.value("at", view, status::describe_view);
}

void describe_node(Fields& fields, NodeStatus& node) {
  fields.value("host", node.host);
  fields.seconds(k_clock, node.measured);
  fields.value("workers", node.workers, Fields::k_unlimited, describe_worker);
  fields.optional("switches", node.switches);
  fields.optional("nvlink_domain", node.nvlink_domain);
}

}  // namespace

void describe_job(OrderedFields& fields, JobStatus& job) {
  fields.value("job", job.job);
  fields.value("launch_id", job.launch_id);
  fields.value("program", job.program);
  fields.value("host", job.host);
  fields.value("pid", job.pid);
  fields.value("phase", job.phase);
  fields.value("attempt", job.attempt);
  fields.value("restarts", job.restarts);
  fields.value("max_restarts", job.max_restarts);
  fields.value("node_count", job.nodes);
  fields.value("worker_count", job.workers);
  fields.seconds("uptime_seconds", job.uptime);
  fields.seconds("step_seconds", job.step);
  fields.seconds("step_hour_ago_seconds", job.step_hour_ago);
  fields.value("nodes", job.here, Fields::k_unlimited, describe_node);
  fields.optional("coordinator", job.coordinator);
  fields.optional("without_answer", job.silent, Fields::k_unlimited);
}

// Renders a status within its limit: from that of many ranks the texts of all threads are left out first,
// then the outer calls, then ranks.
std::string render_status(const NodeStatus& status) {
  std::string text = write_json_text(write_fields(status, describe_node));
  NodeStatus part = status;
  const auto shorten = [&](auto cut) {
    if (text.size() <= k_max_node_status) return;
    for (WorkerStatus& worker : part.workers) cut(worker.view);
    text = write_json_text(write_fields(part, describe_node));
  };
  shorten([](status::RankView& view) { view.threads.clear(); });
  shorten([](status::RankView& view) {
    view.stack.resize(std::min(view.stack.size(), k_few_calls));
    view.calls.resize(std::min(view.calls.size(), k_few_calls));
    view.others.clear();
    if (view.collective) view.collective->members.clear();
  });
  while (text.size() > k_max_node_status && !part.workers.empty()) {
    part.workers.resize(part.workers.size() / 2);
    text = write_json_text(write_fields(part, describe_node));
  }
  return text;
}

std::optional<NodeStatus> parse_node_status(std::string_view text) {
  return read_fields<NodeStatus>(read_ordered_json_text(text), describe_node);
}

std::string render_status(const JobStatus& status) {
  return write_json_text(write_fields(status, describe_job));
}
std::optional<JobStatus> parse_job_status(std::string_view text) {
  return read_fields<JobStatus>(read_ordered_json_text(text), describe_job);
}

std::string render_status_json(const std::vector<JobStatus>& now, const std::vector<JobStatus>& before) {
  OrderedJson jobs = OrderedJson::array();
  for (std::size_t i = 0; i < now.size(); ++i) {
    OrderedJson json = write_fields(now[i], describe_job);
    for (OrderedJson& node : json["nodes"]) {
      node.erase(k_clock);
      for (OrderedJson& worker : node["workers"]) {
        const auto percent = cpu_percent(now[i], before[i], worker.at("rank").get<int>());
        if (percent) worker["cpu_percent"] = *percent;
      }
    }
    jobs.push_back(std::move(json));
  }
  return write_json_text(jobs, 2) + "\n";
}

}  // namespace ddprun::status
