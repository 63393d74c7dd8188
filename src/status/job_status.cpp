#include "status/job_status.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_number.hpp"
#include "base/json_text.hpp"

namespace ddprun::status {

namespace {

using Json = nlohmann::ordered_json;  // printed in the order in which it is read

template <class T>
void put(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}

// Between ddprun processes only: from two of them CPU use is computed.
constexpr const char* k_clock = "clock_seconds";

void put_time(Json& json, const char* name, const std::optional<Milliseconds>& value) {
  if (value) json[name] = static_cast<double>(value->count()) / 1000.0;
}

Json to_json(const WorkerStatus& worker) {
  Json json = {{"rank", worker.rank}, {"local_rank", worker.local_rank}};
  if (worker.pid != 0) json["pid"] = worker.pid;
  put_time(json, "output_age_seconds", worker.output_age);
  put_time(json, "cpu_seconds", worker.cpu_time);
  put(json, "memory_bytes", worker.memory);
  if (!worker.gpu.empty()) json["gpu"] = worker.gpu;
  put(json, "gpu_percent", worker.gpu_percent);
  put(json, "gpu_memory_bytes", worker.gpu_memory);
  return json;
}

Json to_json(const NodeStatus& node) {
  Json workers = Json::array();
  for (const WorkerStatus& worker : node.workers) workers.push_back(to_json(worker));
  return {{"host", node.host},
          {k_clock, static_cast<double>(node.measured.count()) / 1000.0},
          {"workers", std::move(workers)}};
}

Json to_json(const JobStatus& job) {
  Json nodes = Json::array();
  for (const NodeStatus& node : job.here) nodes.push_back(to_json(node));
  Json json = {{"job", job.job},
               {"launch_id", job.launch_id},
               {"program", job.program},
               {"host", job.host},
               {"pid", job.pid},
               {"phase", job.phase},
               {"attempt", job.attempt},
               {"restarts", job.restarts},
               {"max_restarts", job.max_restarts},
               {"node_count", job.nodes},
               {"worker_count", job.workers},
               {"uptime_seconds", static_cast<double>(job.uptime.count()) / 1000.0},
               {"nodes", std::move(nodes)}};
  if (!job.coordinator.empty()) json["coordinator"] = job.coordinator;
  if (!job.silent.empty()) json["without_answer"] = job.silent;
  return json;
}

// Reading throws Json::exception for a field that is missing or of another type.
template <class Number = int>
Number number(const Json& json, const char* name) {
  const auto value = whole_number<Number>(json.at(name));
  if (!value || std::cmp_less(*value, 0)) throw Json::other_error::create(501, "out of range", &json);
  return *value;
}

std::optional<std::uint64_t> optional_size(const Json& json, const char* name) {
  return json.contains(name) ? std::optional(number<std::uint64_t>(json, name)) : std::nullopt;
}

Milliseconds duration(const Json& json) {
  const auto seconds = json.get<double>();
  if (!(seconds >= 0 && seconds < 1e12)) throw Json::other_error::create(501, "out of range", &json);
  return Milliseconds{std::llround(seconds * 1000)};
}

std::optional<Milliseconds> optional_time(const Json& json, const char* name) {
  return json.contains(name) ? std::optional(duration(json.at(name))) : std::nullopt;
}

template <class T>
std::optional<T> optional(const Json& json, const char* name) {
  return json.contains(name) ? std::optional(json.at(name).get<T>()) : std::nullopt;
}

WorkerStatus read_worker(const Json& json) {
  WorkerStatus worker;
  worker.rank = number(json, "rank");
  worker.local_rank = number(json, "local_rank");
  if (json.contains("pid")) worker.pid = number(json, "pid");
  worker.output_age = optional_time(json, "output_age_seconds");
  worker.cpu_time = optional_time(json, "cpu_seconds");
  worker.memory = optional_size(json, "memory_bytes");
  worker.gpu = optional<std::string>(json, "gpu").value_or("");
  if (json.contains("gpu_percent")) worker.gpu_percent = number(json, "gpu_percent");
  worker.gpu_memory = optional_size(json, "gpu_memory_bytes");
  return worker;
}

NodeStatus read_node(const Json& json) {
  NodeStatus node{json.at("host").get<std::string>(), duration(json.at(k_clock)), {}};
  for (const Json& worker : json.at("workers")) node.workers.push_back(read_worker(worker));
  return node;
}

JobStatus read_job(const Json& json) {
  JobStatus job;
  job.job = json.at("job").get<std::string>();
  job.launch_id = json.at("launch_id").get<std::string>();
  job.program = json.at("program").get<std::string>();
  job.host = json.at("host").get<std::string>();
  job.pid = number(json, "pid");
  job.phase = json.at("phase").get<std::string>();
  job.attempt = number(json, "attempt");
  job.restarts = number(json, "restarts");
  job.max_restarts = number(json, "max_restarts");
  job.nodes = number(json, "node_count");
  job.workers = number(json, "worker_count");
  job.uptime = duration(json.at("uptime_seconds"));
  job.coordinator = optional<std::string>(json, "coordinator").value_or("");
  for (const Json& node : json.at("nodes")) job.here.push_back(read_node(node));
  job.silent =
      optional<std::vector<std::string>>(json, "without_answer").value_or(std::vector<std::string>());
  return job;
}

template <class Status, class Read>
std::optional<Status> parse(std::string_view text, const Read& read) {
  try {
    return read(read_ordered_json_text(text));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string render_status(const NodeStatus& status) {
  std::string text = write_json_text(to_json(status));
  NodeStatus part = status;
  while (text.size() > k_max_node_status && !part.workers.empty()) {
    part.workers.resize(part.workers.size() / 2);
    text = write_json_text(to_json(part));
  }
  return text;
}

std::optional<NodeStatus> parse_node_status(std::string_view text) {
  return parse<NodeStatus>(text, read_node);
}

std::string render_status(const JobStatus& status) { return write_json_text(to_json(status)); }
std::optional<JobStatus> parse_job_status(std::string_view text) { return parse<JobStatus>(text, read_job); }

std::string render_status_json(const std::vector<JobStatus>& now, const std::vector<JobStatus>& before) {
  Json jobs = Json::array();
  for (std::size_t i = 0; i < now.size(); ++i) {
    Json json = to_json(now[i]);
    for (Json& node : json["nodes"]) {
      node.erase(k_clock);
      for (Json& worker : node["workers"])
        put(worker, "cpu_percent", cpu_percent(now[i], before[i], worker.at("rank").get<int>()));
    }
    jobs.push_back(std::move(json));
  }
  return write_json_text(jobs, 2) + "\n";
}

}  // namespace ddprun::status
