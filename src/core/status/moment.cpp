#include "status/moment.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "status/module_answer.hpp"
#include "status/verdict.hpp"

namespace ddprun::status {

namespace {

void describe_fields(OrderedFields& fields, Moment& moment) {
  fields.value("time_ms", moment.time);
  fields.value("moment", moment.number);
  fields.value("job", moment.job, describe_job);
  fields.value("histories", moment.histories, OrderedFields::k_unlimited, status::describe_history);
}

std::vector<int> ranks_of(const JobStatus& job) {
  std::set<int> ranks;
  for_each_worker(job, [&](const NodeStatus&, const WorkerStatus& worker) { ranks.insert(worker.rank); });
  return {ranks.begin(), ranks.end()};
}

std::string describe_longest(const JobStatus& job) {
  Milliseconds longest{0};
  for_each_worker(job, [&](const NodeStatus&, const WorkerStatus& worker) {
    const auto& call = worker.view.collective;
    if (call && call->pending) longest = std::max(longest, call->age);
  });
  return "the longest wait is " + describe_duration(longest);
}

// Says nothing of flight records in which the ranks to blame have completed their calls: where these are is
// not known, and the process groups show who is missing.
std::string describe_verdict(const JobStatus& job, bool is_dump) {
  const std::vector<RankGroup> groups = group_ranks(job);
  if (!is_dump && (groups.empty() || groups.front().blame < Blame::mismatched)) return {};
  const bool waits = std::ranges::any_of(groups, [](const RankGroup& group) {
    return group.blame >= Blame::mismatched || group.blame < Blame::ended;
  });
  if (!waits) return "no rank waits for another one\n";
  const Verdict verdict =
      make_verdict(job, is_dump ? describe_longest(job) : "torch's flight records show it").value();
  const std::string host = verdict.host.empty() ? "" : " on " + printable(verdict.host, 128);
  return fmt::format("rank {}{}: {}\nhint: {}\n", verdict.rank, host, verdict.reason, verdict.hint);
}

}  // namespace

std::string render_moment(Moment moment) {
  for (std::size_t calls = k_dumped_calls;; calls /= 2) {
    std::string text = write_json_text(write_fields(moment, describe_fields));
    if (text.size() <= k_max_moment) return text;
    if (calls == 0) moment.histories.clear();
    for (auto& [rank, kept, members] : moment.histories)
      kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(std::min(calls, kept.size())));
  }
}

std::optional<Moment> parse_moment(std::string_view text) {
  return read_fields<Moment>(read_ordered_json_text(text), describe_fields);
}

std::optional<Moment> join_newest(std::vector<Moment> dumps) {
  if (dumps.empty()) return std::nullopt;
  Moment joined = *std::ranges::max_element(dumps, {}, &Moment::time);
  joined.job.here.clear();
  joined.histories.clear();
  // Sorts them by their first ranks, those of the newest moment first.
  std::ranges::sort(dumps, {},
                    [](const Moment& each) { return std::pair(-each.number, ranks_of(each.job)); });
  std::set<std::string> here;
  for (Moment& dump : dumps) {
    if (dump.job.launch_id != joined.job.launch_id || dump.job.attempt != joined.job.attempt) continue;
    const bool newest = dump.number == joined.number;
    for (NodeStatus& node : dump.job.here) {
      const bool is_new = here.insert(node.host).second;
      if (!newest && is_new) joined.job.silent.push_back(node.host);
      if (newest) joined.job.here.push_back(std::move(node));
    }
    if (newest) std::ranges::move(dump.histories, std::back_inserter(joined.histories));
  }
  return joined;
}

Moment make_moment(std::vector<status::RankHistory> records, std::int64_t time) {
  Moment moment{time, 0, {}, std::move(records)};
  NodeStatus& node = moment.job.here.emplace_back();
  for (const status::RankHistory& history : moment.histories) {
    WorkerStatus& worker = node.workers.emplace_back();
    worker.rank = history.rank;
    worker.pid = -1;  // not known; it had not ended
    worker.view.collective = status::find_place(history);
    if (!worker.view.collective || !worker.view.collective->pending)
      worker.view.unseen = "a flight record has none";
  }
  return moment;
}

std::string describe_moment(const Moment& moment) {
  const std::vector<int> ranks = ranks_of(moment.job);
  const bool is_dump = !moment.job.launch_id.empty();
  std::string text =
      fmt::format("{} of {:%Y-%m-%dT%H:%M:%S}Z, {}", is_dump ? "dump" : "flight records",
                  fmt::gmtime(static_cast<std::time_t>(moment.time / 1000)), status::name_ranks(ranks));
  const int missing = moment.job.workers - static_cast<int>(ranks.size());
  if (missing > 0) text += fmt::format(", without {} of {}", missing, count_of(moment.job.workers, "rank"));
  text += "\n" + describe_verdict(moment.job, is_dump);
  for (const std::string& line : status::check_groups(moment.histories)) text += line + "\n";
  return text + (is_dump ? "\n" + render_stacks(moment.job) : render_ranks(moment.job));
}

namespace {

// Renders a text that a worker wrote: nothing in it controls a terminal. Ends with one line end; empty if the
// text is.
std::string section(const std::string& title, std::string_view text) {
  const std::string_view inside = trim(text);
  return inside.empty() ? "" : fmt::format("-- {} --\n{}\n", title, printable_lines(inside));
}

}  // namespace

std::string render_stack_record(const std::string& host, const WorkerStatus& worker,
                                const status::Collected& collected, std::int64_t time, int attempt) {
  if (worker.pid == 0) return {};
  const auto seconds = static_cast<std::time_t>(time / 1000);
  const std::string heading =
      fmt::format("== {:%Y-%m-%dT%H:%M:%S}Z, attempt {}, rank {} on {}, pid {} ==\n", fmt::gmtime(seconds),
                  attempt, worker.rank, printable(host, 128), worker.pid);
  return heading + fmt::format("rank {} {}\n", worker.rank, status::describe_place(worker.view)) +
         section("Python threads", status::render_threads(collected.module)) +
         section("Python threads (faulthandler)", collected.dump) +
         section(collected.native_tool, collected.native) + section("flight record", collected.record) +
         section("NCCL's RAS, of all ranks", collected.ras) + "\n";
}

}  // namespace ddprun::status
