#include "events/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace ddprun::events {

namespace {

class Builder {
 public:
  void note(const Event& event) {
    if (event.kind == EventKind::begin) {
      *this = {};
      timeline_.job = event.job;
      timeline_.from = event.unix_milliseconds;
    }
    timeline_.until = std::max(timeline_.until, event.unix_milliseconds);
    if (timeline_.from == 0) timeline_.from = event.unix_milliseconds;
    if (event.kind == EventKind::joined) host(event.host).joined = event.unix_milliseconds;
    if (event.kind == EventKind::plan) timeline_.workers = event.workers;
    if (event.rank >= 0) note_worker(event);
    if (event.kind == EventKind::lost) note_loss(event);
    note_mark(event);
  }

  Timeline take() {
    for (auto& [name, host] : hosts_) finish(host);
    for (auto& [name, host] : hosts_) timeline_.hosts.push_back(std::move(host));
    std::ranges::stable_sort(timeline_.hosts, [](const auto& a, const auto& b) {
      if (a.rows.empty() || b.rows.empty()) return !a.rows.empty() && b.rows.empty();
      return a.rows.front().rank < b.rows.front().rank;
    });
    return std::move(timeline_);
  }

 private:
  TimelineHost& host(const std::string& name) {
    TimelineHost& found = hosts_[name];
    found.name = name;
    return found;
  }

  TimelineRow& row(const Event& event) {
    std::vector<TimelineRow>& rows = host(event.host).rows;
    const auto at =
        std::ranges::find_if(rows, [&](const TimelineRow& row) { return row.rank == event.rank; });
    if (at != rows.end()) return *at;
    rows.push_back({event.rank, event.local_rank, event.gpu, {}});
    return rows.back();
  }

  // Returns the bar of the event's attempt, made here for a worker that could not start: it has no start
  // event.
  TimelineBar& bar(const Event& event) {
    std::vector<TimelineBar>& bars = row(event).bars;
    if (bars.empty() || bars.back().attempt != event.attempt) {
      TimelineBar& made = bars.emplace_back();
      made.attempt = event.attempt;
      made.from = event.unix_milliseconds;
    }
    return bars.back();
  }

  void note_worker(const Event& event) {
    TimelineBar& worker = bar(event);
    if (event.kind == EventKind::start) worker.from = event.unix_milliseconds;
    if (event.kind == EventKind::output) worker.first_output = event.unix_milliseconds;
    if (event.kind == EventKind::exit) {
      worker.until = event.unix_milliseconds;
      worker.ended = true;
      worker.what = event.what;
      worker.stopped = !event.signal.empty() || event.exit_code.value_or(0) != 0;
    }
    if (event.kind == EventKind::hang) worker.hung.push_back(event.unix_milliseconds);
    if (event.kind != EventKind::failed) return;
    worker.failed = true;
    worker.stopped = false;
    worker.what = event.what + (event.hint.empty() ? "" : "\nhint: " + event.hint);
    worker.lines = event.lines;
    timeline_.marks.push_back(event);
  }

  void note_loss(const Event& event) {
    TimelineHost& lost = host(event.host);
    lost.lost = event.what;
    lost.lost_at = event.unix_milliseconds;
    timeline_.marks.push_back(event);
  }

  void note_mark(const Event& event) {
    if (event.kind == EventKind::attempt || event.kind == EventKind::restart ||
        event.kind == EventKind::stop || event.kind == EventKind::hang || event.kind == EventKind::end) {
      timeline_.marks.push_back(event);
    }
    if (event.kind != EventKind::end) return;
    timeline_.end = event.what;
    timeline_.exit_code = event.exit_code.value_or(0);
  }

  void finish(TimelineHost& host) const {
    std::ranges::sort(host.rows, [](const TimelineRow& a, const TimelineRow& b) { return a.rank < b.rank; });
    for (TimelineRow& row : host.rows) {
      for (TimelineBar& bar : row.bars) {
        if (!bar.ended) bar.until = host.lost_at != 0 ? host.lost_at : timeline_.until;
        bar.until = std::max(bar.until, bar.from);
      }
    }
  }

  Timeline timeline_;
  std::map<std::string, TimelineHost> hosts_;
};

}  // namespace

bool TimelineHost::failed() const {
  return !lost.empty() || std::ranges::any_of(rows, [](const TimelineRow& row) {
    return std::ranges::any_of(row.bars, [](const TimelineBar& bar) { return bar.failed; });
  });
}

Timeline make_timeline(std::string_view events) {
  Builder builder;
  for (const std::string& line : split(events, '\n')) {
    if (const auto event = parse_event(line)) builder.note(*event);
  }
  return builder.take();
}

std::string describe_moment(std::int64_t milliseconds) {
  const std::int64_t seconds = milliseconds / 1000;
  if (milliseconds < 60000) return fmt::format("{:.1f} s", static_cast<double>(milliseconds) / 1000);
  if (seconds < 3600) return fmt::format("{:02}:{:02}", seconds / 60, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

}  // namespace ddprun::events
