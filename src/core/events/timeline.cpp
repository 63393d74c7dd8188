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

// The timeline in 100 columns, for a terminal or a mail.

namespace {

constexpr std::size_t k_label = 18;
constexpr std::size_t k_columns = 80;
constexpr std::size_t k_rows_shown = 64;  // limit of workers' rows, before hosts are folded

class TextDrawing {
 public:
  explicit TextDrawing(const Timeline& timeline) : timeline_(timeline) {}

  std::string render() {
    add_head();
    const bool folded = static_cast<std::size_t>(timeline_.workers) > k_rows_shown;
    for (const TimelineHost& host : timeline_.hosts) folded ? add_folded(host) : add_rows(host);
    add_axis();
    text_ +=
        "= runs  - up, nothing written yet  x stopped because of another  X failed  H hangs  L host lost\n";
    add_marks();
    return std::move(text_);
  }

 private:
  std::size_t column(std::int64_t time) const {
    const auto span = std::max<std::int64_t>(timeline_.until - timeline_.from, 1);
    const auto part = std::clamp<std::int64_t>(time - timeline_.from, 0, span);
    return static_cast<std::size_t>(part * static_cast<std::int64_t>(k_columns - 1) / span);
  }

  void add_head() {
    text_ += fmt::format("job {}: {} on {}, {}\n", printable(timeline_.job, 40),
                         count_of(timeline_.workers, "worker"),
                         count_of(static_cast<std::int64_t>(timeline_.hosts.size()), "host"),
                         describe_moment(timeline_.until - timeline_.from));
    text_ += timeline_.end.empty() ? "the file ends before the job\n" : printable(timeline_.end, 99) + "\n";
  }

  void draw(std::string& line, const TimelineBar& bar) const {
    const std::size_t first = column(bar.from);
    const std::size_t last = column(bar.until);
    const std::size_t written = bar.first_output ? column(*bar.first_output) : last + 1;
    for (std::size_t at = first; at <= last; ++at) {
      const char drawn = at < written && bar.first_output ? '-' : '=';
      if (line[at] != 'X' && line[at] != 'x') line[at] = drawn;
    }
    for (const std::int64_t time : bar.hung) line[column(time)] = 'H';
    if (bar.failed) line[last] = 'X';
    if (bar.stopped && line[last] != 'X') line[last] = 'x';
  }

  void add_line(const std::string& label, std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += fmt::format("{:<{}} {}\n", label.substr(0, k_label), k_label, line);
  }

  void mark_loss(const TimelineHost& host, std::string& line) const {
    if (host.lost_at != 0) line[column(host.lost_at)] = 'L';
  }

  void add_rows(const TimelineHost& host) {
    for (const TimelineRow& row : host.rows) {
      std::string line(k_columns, ' ');
      for (const TimelineBar& bar : row.bars) draw(line, bar);
      mark_loss(host, line);
      add_line(fmt::format("{:>4} {}", row.rank, printable(host.name)), line);
    }
  }

  void add_folded(const TimelineHost& host) {
    std::string line(k_columns, ' ');
    for (const TimelineRow& row : host.rows) {
      for (const TimelineBar& bar : row.bars) draw(line, bar);
    }
    mark_loss(host, line);
    const std::string ranks = host.rows.empty()
                                  ? std::string()
                                  : fmt::format(" {}-{}", host.rows.front().rank, host.rows.back().rank);
    add_line(printable(host.name, 12) + ranks, line);
  }

  void add_axis() {
    const std::string end = describe_moment(timeline_.until - timeline_.from);
    text_ += fmt::format("{:<{}} 0{:>{}}\n", "", k_label, end, k_columns - 1);
  }

  void add_marks() {
    for (const Event& mark : timeline_.marks) {
      std::string what = mark.what;
      if (mark.kind == EventKind::attempt) what = fmt::format("attempt {} starts", mark.attempt);
      text_ += fmt::format("{:>10}  {}\n", describe_moment(mark.unix_milliseconds - timeline_.from),
                           printable(what.substr(0, 87), 87));
    }
  }

  const Timeline& timeline_;
  std::string text_;
};

}  // namespace

std::string render_timeline_text(const Timeline& timeline) { return TextDrawing(timeline).render(); }

}  // namespace ddprun::events
