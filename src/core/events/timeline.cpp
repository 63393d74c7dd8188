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

// The timeline as one page: plain SVG and <details>, since a page without scripts opens everywhere, prints,
// and has nothing to keep up to date.

namespace {

constexpr double k_width = 1000;
constexpr int k_row = 16;
constexpr std::size_t k_open_workers = 64;  // with more, the hosts are folded
constexpr std::size_t k_title_lines = 12;

constexpr const char* k_style = R"(
:root { color-scheme: light dark; --paper: #fcfcfb; --ink: #1c1c1a; --dim: #6b6b66; --line: #dcdcd6;
  --run: #4a84c4; --quiet: #a9c6e6; --stop: #b9b4a6; --fail: #c8372d; }
@media (prefers-color-scheme: dark) { :root { --paper: #17181a; --ink: #e8e8e4; --dim: #9a9a94; --line: #36383c;
  --run: #5b93d0; --quiet: #34506e; --stop: #5f5b52; --fail: #f0675c; } }
body { margin: 1.5rem auto; max-width: 84rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 14px/1.4 system-ui, sans-serif; }
h1 { font-size: 1.2rem; margin: 0; } p { margin: .2rem 0 .8rem; color: var(--dim); } 
.row { display: grid; grid-template-columns: 13rem 1fr; align-items: center; gap: .6rem; }
.row > span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; text-align: right;
  font-variant-numeric: tabular-nums; color: var(--dim); font-size: 12px; }
summary { list-style: none; cursor: pointer; } summary > .row > span { color: var(--ink); font-size: 13px; }
p.bad, summary > .row > span.bad { color: var(--fail); }
summary::-webkit-details-marker { display: none; } summary > .row > span::before { content: "\25b8 "; color: var(--dim); }
details[open] > summary > .row > span::before { content: "\25be "; }
details { border-top: 1px solid var(--line); } svg { display: block; width: 100%; }
.run { fill: var(--run); } .quiet { fill: var(--quiet); } .stopped { fill: var(--stop); } .failed, .hung { fill: var(--fail); }
.mark { stroke: var(--dim); stroke-width: 1; vector-effect: non-scaling-stroke; stroke-dasharray: 2 3; }
.axis { display: flex; justify-content: space-between; color: var(--dim); font-size: 12px; }
.key b { display: inline-block; width: 1.1em; height: .8em; margin: 0 .3em 0 1em; border-radius: 2px; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px; } td { padding: .1rem .8rem .1rem 0; vertical-align: top; }
td:first-child { text-align: right; color: var(--dim); font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { margin: .2rem 0 .6rem; white-space: pre-wrap; font-size: 12px; }
)";

std::string escape_lines(const std::string& text) {
  std::string escaped;
  for (const std::string& line : split(text, '\n'))
    escaped += (escaped.empty() ? "" : "\n") + escape_markup(line);
  return escaped;
}

class Page {
 public:
  explicit Page(const Timeline& timeline)
      : timeline_(timeline), span_(std::max<std::int64_t>(timeline.until - timeline.from, 1)) {}

  std::string render() {
    page_ =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>ddprun " +
        escape_markup(timeline_.job) + "</title>\n<style>" + k_style + "</style></head><body>\n";
    add_head();
    add_axis();
    const bool open = static_cast<std::size_t>(timeline_.workers) <= k_open_workers;
    for (const TimelineHost& host : timeline_.hosts) add_host(host, open);
    add_marks();
    page_ += "</body></html>\n";
    return std::move(page_);
  }

 private:
  double at(std::int64_t time) const {
    return static_cast<double>(std::clamp<std::int64_t>(time - timeline_.from, 0, span_)) * k_width /
           static_cast<double>(span_);
  }

  void add_head() {
    page_ += fmt::format("<h1>Job {}: {} on {}</h1>\n", escape_markup(timeline_.job),
                         count_of(timeline_.workers, "worker"),
                         count_of(static_cast<std::int64_t>(timeline_.hosts.size()), "host"));
    const bool bad = timeline_.exit_code != 0;
    page_ +=
        fmt::format("<p{}>{}, after {}</p>\n", bad ? " class=\"bad\"" : "",
                    timeline_.end.empty() ? "the file ends before the job" : escape_markup(timeline_.end),
                    describe_moment(span_));
    page_ +=
        "<p class=\"key\"><b class=\"k1\" style=\"background:var(--quiet)\"></b>started, nothing written "
        "yet<b style=\"background:var(--run)\"></b>runs<b style=\"background:var(--stop)\"></b>stopped "
        "because of another<b style=\"background:var(--fail)\"></b>failed, or was found to "
        "hang; hover a bar for its cause and last lines</p>\n";
  }

  void add_axis() {
    page_ += "<div class=\"row\"><span></span><div class=\"axis\">";
    for (int part = 0; part <= 4; ++part) {
      page_ += fmt::format("<i>{}</i>", part == 0 ? "0" : describe_moment(span_ * part / 4));
    }
    page_ += "</div></div>\n";
  }

  std::string marks(int height) const {
    std::string svg;
    for (const Event& mark : timeline_.marks) {
      if (mark.kind != EventKind::attempt) continue;
      svg += fmt::format("<line class=\"mark\" x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"0\" y2=\"{1}\"/>",
                         at(mark.unix_milliseconds), height);
    }
    return svg;
  }

  std::string title(const TimelineRow& row, const TimelineBar& bar) const {
    std::string text =
        fmt::format("rank {}, attempt {}, {} to {}{}{}", row.rank, bar.attempt,
                    describe_moment(bar.from - timeline_.from), describe_moment(bar.until - timeline_.from),
                    row.gpu.empty() ? "" : ", GPU ", row.gpu);
    if (!bar.what.empty()) text += "\n" + bar.what;
    const std::size_t skipped = bar.lines.size() - std::min(bar.lines.size(), k_title_lines);
    for (std::size_t i = skipped; i < bar.lines.size(); ++i) text += "\n| " + bar.lines[i];
    return escape_lines(text);
  }

  std::string box(const char* kind, std::int64_t from, std::int64_t until, double least, int height) const {
    const double left = at(from);
    const double width = std::max(at(until) - left, least);
    return fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"2\" width=\"{:.2f}\" height=\"{}\"/>", kind,
                       std::min(left, k_width - width), width, height - 4);
  }

  std::string draw(const TimelineRow& row, const TimelineBar& bar, int height, bool titled) const {
    const std::int64_t written = bar.first_output.value_or(bar.from);
    std::string svg = titled ? "<g>" : "";
    if (written > bar.from) svg += box("quiet", bar.from, written, 0, height);
    svg += box("run", std::min(written, bar.until), bar.until, 1, height);
    const std::int64_t tail = std::max(bar.from, bar.until - span_ / 100);
    if (bar.failed) svg += box("failed", tail, bar.until, 6, height);
    if (bar.stopped) svg += box("stopped", tail, bar.until, 3, height);
    for (const std::int64_t time : bar.hung) svg += box("hung", time, time, 4, height);
    return titled ? svg + "<title>" + title(row, bar) + "</title></g>" : svg;
  }

  std::string picture(const std::string& inside, int height) const {
    return fmt::format(
        "<svg viewBox=\"0 0 {0} {1}\" height=\"{1}\" preserveAspectRatio=\"none\">{2}{3}</svg>", k_width,
        height, marks(height), inside);
  }

  // Draws a folded host; failures of any rank lie above the bars of the others.
  std::string folded(const TimelineHost& host) const {
    std::string plain;
    std::string failures;
    std::map<int, TimelineBar> attempts;
    for (const TimelineRow& row : host.rows) {
      for (const TimelineBar& bar : row.bars) {
        if (bar.failed) failures += draw(row, bar, k_row, true);
        const auto [found, first] = attempts.try_emplace(bar.attempt, bar);
        TimelineBar& whole = found->second;
        whole.from = std::min(whole.from, bar.from);
        whole.until = std::max(whole.until, bar.until);
        whole.first_output = first ? bar.first_output : std::max(whole.first_output, bar.first_output);
      }
    }
    for (const auto& [attempt, bar] : attempts) {
      TimelineBar whole = bar;
      whole.failed = whole.stopped = false;
      plain += draw({}, whole, k_row, false);
    }
    if (host.lost_at != 0) {
      failures += fmt::format("<g>{}<title>{}</title></g>",
                              box("failed", host.lost_at, host.lost_at, 5, k_row), escape_lines(host.lost));
    }
    return plain + failures;
  }

  void add_host(const TimelineHost& host, bool open) {
    const auto count = static_cast<std::int64_t>(host.rows.size());
    page_ += fmt::format(
        "<details{}><summary><div class=\"row\"><span{} title=\"{}\">{} ({})</span>{}</div></summary>\n",
        open ? " open" : "", host.failed() ? " class=\"bad\"" : "", escape_markup(host.lost),
        escape_markup(host.name, 64), count_of(count, "worker"), picture(folded(host), k_row));
    for (const TimelineRow& row : host.rows) {
      std::string bars;
      for (const TimelineBar& bar : row.bars) bars += draw(row, bar, k_row, true);
      page_ +=
          fmt::format("<div class=\"row\"><span>rank {}</span>{}</div>\n", row.rank, picture(bars, k_row));
    }
    page_ += "</details>\n";
  }

  void add_marks() {
    page_ += "<table>\n";
    for (const Event& mark : timeline_.marks) {
      std::string what = mark.what;
      if (mark.kind == EventKind::attempt) what = fmt::format("attempt {} starts", mark.attempt);
      page_ += fmt::format("<tr><td>{}</td><td>{}", describe_moment(mark.unix_milliseconds - timeline_.from),
                           escape_markup(what));
      if (!mark.hint.empty()) page_ += "<br>hint: " + escape_markup(mark.hint);
      if (!mark.lines.empty()) {
        page_ += "<pre>";
        for (const std::string& line : mark.lines) page_ += escape_markup(line) + "\n";
        page_ += "</pre>";
      }
      page_ += "</td></tr>\n";
    }
    page_ += "</table>\n";
  }

  const Timeline& timeline_;
  std::int64_t span_;
  std::string page_;
};

}  // namespace

std::string render_timeline_html(const Timeline& timeline) { return Page(timeline).render(); }

}  // namespace ddprun::events
