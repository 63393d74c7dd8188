#include "events/timeline.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::events;

namespace {

std::string line(double seconds, EventKind kind, const std::string& host, int rank = -1, int attempt = 0) {
  Event event;
  event.kind = kind;
  event.unix_milliseconds = static_cast<std::int64_t>(seconds * 1000);
  event.host = host;
  event.rank = rank;
  event.attempt = attempt;
  if (kind == EventKind::begin) event.job = "7";
  if (kind == EventKind::plan) event.workers = 4;
  if (kind == EventKind::exit) event.exit_code = attempt == 0 ? 1 : 0;
  if (kind == EventKind::end) event.what = "all workers succeeded";
  if (kind == EventKind::failed) {
    event.what = "rank 3 on n2 exited with code 1";
    event.hint = "do <this>";
    event.lines = {"ValueError: \"bad\" & <worse>"};
  }
  return render_event(event);
}

// Two hosts, four workers, a failure of rank 3 and a second attempt.
std::string restarted() {
  std::string text = line(100, EventKind::begin, "n1") + line(101, EventKind::plan, "n1");
  for (const int attempt : {0, 1}) {
    const double start = 102 + 50.0 * attempt;
    text += line(start, EventKind::attempt, "n1", -1, attempt);
    for (const int rank : {0, 1, 2, 3}) {
      text += line(start, EventKind::start, rank < 2 ? "n1" : "n2", rank, attempt);
      text += line(start + 5, EventKind::output, rank < 2 ? "n1" : "n2", rank, attempt);
      text += line(start + 40, EventKind::exit, rank < 2 ? "n1" : "n2", rank, attempt);
    }
    if (attempt == 0) text += line(143, EventKind::failed, "n2", 3) + "not an event\n";
  }
  return text + line(200, EventKind::end, "n1");
}

std::string large_job(int hosts, int workers) {
  std::string text = line(0.5, EventKind::begin, "h0");
  Event plan;
  plan.kind = EventKind::plan;
  plan.unix_milliseconds = 1000;
  plan.workers = hosts * workers;
  text += render_event(plan);
  for (int rank = 0; rank < hosts * workers; ++rank) {
    const std::string host = fmt::format("h{}", rank / workers);
    text += line(2, EventKind::start, host, rank) + line(90, EventKind::exit, host, rank, 0);
  }
  return text + line(91, EventKind::failed, "h5", 5 * workers) + line(100, EventKind::end, "h0");
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace

TEST_CASE("hosts with their ranks, and of each attempt who failed and who was stopped") {
  const Timeline timeline = make_timeline(restarted());
  CHECK(timeline.job == "7");
  CHECK(timeline.until - timeline.from == 100000);
  REQUIRE(timeline.hosts.size() == 2);
  CHECK(timeline.hosts[0].name == "n1");
  CHECK_FALSE(timeline.hosts[0].failed());
  CHECK(timeline.hosts[1].failed());
  REQUIRE(timeline.hosts[1].rows.size() == 2);
  const std::vector<TimelineBar>& bars = timeline.hosts[1].rows[1].bars;
  REQUIRE(bars.size() == 2);
  CHECK(bars[0].failed);
  CHECK(bars[0].lines.size() == 1);
  CHECK(timeline.hosts[0].rows[0].bars[0].stopped);
  CHECK_FALSE(bars[1].failed);
  CHECK_FALSE(bars[1].stopped);
  CHECK(bars[1].until - bars[1].from == 40000);
}

TEST_CASE("a rank that was found to hang is marked where it was, and its sentence is in the list") {
  Event hang;
  hang.kind = EventKind::hang;
  hang.unix_milliseconds = 60000;
  hang.host = "n1";
  hang.rank = hang.attempt = 0;
  hang.what = "rank 0 on n1 hangs: it is at train.py:8";
  hang.hint = "do <that>";
  const Timeline timeline =
      make_timeline(line(10, EventKind::begin, "n1") + line(11, EventKind::start, "n1", 0) +
                    render_event(hang) + line(110, EventKind::end, "n1"));
  REQUIRE(timeline.hosts.size() == 1);
  CHECK(timeline.hosts[0].rows[0].bars[0].hung == std::vector<std::int64_t>{60000});
  CHECK_FALSE(timeline.hosts[0].rows[0].bars[0].failed);
  const std::string text = render_timeline_text(timeline);
  CHECK(text.find("=H=") != std::string::npos);
  CHECK(text.find("50.0 s  rank 0 on n1 hangs: it is at train.py:8\n") != std::string::npos);
  const std::string page = render_timeline_html(timeline);
  CHECK(count(page, "class=\"hung\"") == 2);  // in the host's row and in its own
  CHECK(page.find("hint: do &lt;that&gt;") != std::string::npos);
}

TEST_CASE("of a file with several jobs the last one is drawn") {
  const Timeline timeline =
      make_timeline(line(1, EventKind::begin, "old") + line(2, EventKind::start, "old", 9) + restarted());
  CHECK(timeline.hosts.size() == 2);
}

TEST_CASE("a worker that still runs lasts until the end of the file, or until its host was lost") {
  std::string text = line(10, EventKind::begin, "n1") + line(11, EventKind::start, "n1", 0) +
                     line(11, EventKind::start, "n2", 1) + line(15, EventKind::lost, "n2") +
                     line(20, EventKind::stop, "n1");
  const Timeline timeline = make_timeline(text);
  CHECK(timeline.hosts[0].rows[0].bars[0].until == 20000);
  CHECK(timeline.hosts[1].rows[0].bars[0].until == 15000);
  CHECK(timeline.end.empty());
}

TEST_CASE("as text it has 100 columns at most, a line a worker, and a failure is a cross") {
  const std::string text = render_timeline_text(make_timeline(restarted()));
  for (const std::string& each : split(text, '\n')) CHECK(each.size() <= 100);
  CHECK(count(text, "X") == 2);  // and in the key
  CHECK(text.find("   3 n2") != std::string::npos);
  CHECK(text.starts_with("job 7: 4 workers on 2 hosts, 01:40\nall workers succeeded\n"));
}

TEST_CASE("a large job is folded by host, in the text and in the page") {
  const Timeline timeline = make_timeline(large_job(125, 8));
  const std::string text = render_timeline_text(timeline);
  CHECK(count(text, "\n") < 140);
  CHECK(text.find("h5 40-47") != std::string::npos);
  const std::string page = render_timeline_html(timeline);
  CHECK(count(page, "<details>") == 125);
  CHECK(count(page, "<details open>") == 0);
  CHECK(page.size() < 1500000);
}

TEST_CASE("the page is whole by itself, and nothing in it is a worker's") {
  const std::string page = render_timeline_html(make_timeline(restarted()));
  CHECK(count(page, "<details open>") == 2);
  CHECK(page.find("http") == std::string::npos);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("ValueError: &quot;bad&quot; &amp; &lt;worse&gt;") != std::string::npos);
  CHECK(page.find("<worse>") == std::string::npos);
  CHECK(count(page, "class=\"failed\"") == 2);  // in the host's row and in its own
  CHECK(page.find("prefers-color-scheme: dark") != std::string::npos);
}

TEST_CASE("an empty file has nothing to draw") { CHECK(make_timeline("x\n").from == 0); }
