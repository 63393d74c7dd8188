#include "status/job_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json_fields.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

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

namespace {

using Row = std::vector<std::string>;

struct Found {
  const WorkerStatus* worker = nullptr;
  Milliseconds measured{0};
};

Found find_worker(const JobStatus& job, int rank) {
  for (const NodeStatus& node : job.here) {
    for (const WorkerStatus& worker : node.workers) {
      if (worker.rank == rank) return {&worker, node.measured};
    }
  }
  return {};
}

std::string describe_bytes(std::optional<std::uint64_t> bytes) {
  if (!bytes) return "-";
  const double mebibytes = static_cast<double>(*bytes) / (1 << 20);
  return mebibytes < 1000 ? fmt::format("{:.0f} MiB", mebibytes)
                          : fmt::format("{:.1f} GiB", mebibytes / 1024);
}

std::string describe_percent(std::optional<int> percent) {
  return percent ? fmt::format("{} %", *percent) : "-";
}

// Returns "42 s", "5 min", "3 h 20 min", "2 d 4 h": enough to see whether there is still progress.
std::string describe_age(Milliseconds age) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  const auto minutes = seconds / 60;
  const auto hours = minutes / 60;
  if (seconds < 100) return fmt::format("{} s", seconds);
  if (minutes < 60) return fmt::format("{} min", minutes);
  return hours < 48 ? fmt::format("{} h {} min", hours, minutes % 60)
                    : fmt::format("{} d {} h", hours / 24, hours % 24);
}

std::string describe_output(const WorkerStatus& worker) {
  if (worker.pid == 0) return "ended";
  return worker.output_age ? describe_age(*worker.output_age) + " ago" : "none seen";
}

// Returns "all_reduce #12, 3 s ago", "in all_reduce #12 for 40 s".
std::string describe_last_collective(const WorkerStatus& worker) {
  const auto& last = worker.view.collective;
  if (!last) return "-";
  const std::string name = fmt::format("{} #{}", printable(last->operation, 32), last->sequence);
  return last->pending ? fmt::format("in {} for {}", name, describe_age(last->age))
                       : fmt::format("{}, {} ago", name, describe_age(last->age));
}

Row row_of(const NodeStatus& node, const WorkerStatus& worker, std::optional<int> cpu) {
  return {fmt::format("{}", worker.rank),
          printable(node.host, 64),
          node.switches.empty() ? "-" : printable(node.switches, 64),
          node.nvlink_domain.empty() ? "-" : printable(node.nvlink_domain, 64),
          fmt::format("{}", worker.local_rank),
          worker.pid == 0 ? "-" : fmt::format("{}", worker.pid),
          describe_percent(cpu),
          describe_percent(worker.waited_percent),
          describe_bytes(worker.memory),
          worker.gpu.empty() ? "-" : printable(worker.gpu, 64),
          describe_percent(worker.gpu_percent),
          describe_bytes(worker.gpu_memory),
          worker.standby.empty() ? "-" : printable(worker.standby, 64),
          describe_output(worker),
          describe_last_collective(worker)};
}

std::vector<Row> rows_of(const JobStatus& now, const JobStatus& before) {
  std::vector<Row> rows{{"RANK", "HOST", "SWITCHES", "NVLINK DOMAIN", "LOCAL", "PID", "CPU", "WAITED FOR",
                         "MEMORY", "GPU", "GPU USE", "GPU MEMORY", "STANDBY", "LAST OUTPUT",
                         "LAST COLLECTIVE"}};
  for (const NodeStatus& node : now.here) {
    for (const WorkerStatus& worker : node.workers)
      rows.push_back(row_of(node, worker, cpu_percent(now, before, worker.rank)));
  }
  return rows;
}

// Aligns the rows. A column without values is left out; the last one needs no blanks behind it.
std::string align(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (std::size_t column = 0; column < widths.size(); ++column) {
    const bool says =
        std::any_of(rows.begin() + 1, rows.end(), [column](const Row& row) { return row[column] != "-"; });
    for (const Row& row : rows) widths[column] = says ? std::max(widths[column], row[column].size()) : 0;
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < widths.size(); ++column) {
      if (widths[column] > 0) line += fmt::format("{:<{}}  ", row[column], widths[column]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string describe_head(const JobStatus& job) {
  std::string text = job.job.empty() ? printable(job.program) : "job " + printable(job.job, 128);
  text += fmt::format(" on {} (ddprun {}): {}", printable(job.host, 128), job.pid, printable(job.phase, 512));
  if (job.attempt > 0) text += ", " + describe_attempt(job.attempt, job.restarts, job.max_restarts);
  return text + ", for " + describe_age(job.uptime) + "\n";
}

// Returns "; a step takes 812 ms, 3 % more than an hour ago".
std::string describe_step(const JobStatus& job) {
  if (!job.step || job.step->count() == 0) return {};
  const auto now = static_cast<double>(job.step->count());
  const std::string text = now < 1000 ? fmt::format("; a step takes {} ms", now)
                                      : fmt::format("; a step takes {:.1f} s", now / 1000);
  if (!job.step_hour_ago || job.step_hour_ago->count() == 0) return text;
  const auto before = static_cast<double>(job.step_hour_ago->count());
  const long percent = std::lround(100 * (now - before) / before);
  if (percent == 0) return text + ", as an hour ago";
  return text + fmt::format(", {} % {} than an hour ago", std::abs(percent), percent > 0 ? "more" : "less");
}

}  // namespace

std::optional<int> cpu_percent(const JobStatus& now, const JobStatus& before, int rank) {
  const auto [worker, at] = find_worker(now, rank);
  const auto [earlier, earlier_at] = find_worker(before, rank);
  const Milliseconds between = at - earlier_at;
  const bool same = worker != nullptr && earlier != nullptr && worker->pid == earlier->pid;
  if (!same || !worker->cpu_time || !earlier->cpu_time || between.count() <= 0) return std::nullopt;
  // CPU time of a process that has ended counts once its parent has waited for it, until then not at all.
  const Milliseconds used = std::max(*worker->cpu_time - *earlier->cpu_time, Milliseconds{0});
  return static_cast<int>(
      std::lround(100.0 * static_cast<double>(used.count()) / static_cast<double>(between.count())));
}

std::string render_heading(const JobStatus& job) {
  std::string text = describe_head(job);
  if (job.workers > 0)
    text += fmt::format("{} on {}: {}{}\n", count_of(job.workers, "worker"), count_of(job.nodes, "node"),
                        printable(job.program), describe_step(job));
  return text;
}

std::string render_status_table(const JobStatus& now, const JobStatus& before) {
  std::string text = render_heading(now);
  const std::vector<Row> rows = rows_of(now, before);
  if (rows.size() > 1) text += align(rows);
  if (!now.silent.empty())
    text += fmt::format("no answer from {}\n", printable(join(now.silent, ", "), 4096));
  if (!now.coordinator.empty())
    text += fmt::format("only the workers of this node: the coordinator on {} has not answered\n",
                        printable(now.coordinator, 128));
  return text;
}

}  // namespace ddprun::status
