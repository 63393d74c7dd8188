// The timeline in 100 columns, for a terminal or a mail.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "events/timeline.hpp"

namespace ddprun::events {

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
