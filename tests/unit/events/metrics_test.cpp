#include "events/metrics.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::events;

namespace {

Event at(std::int64_t seconds, EventKind kind) {
  Event event;
  event.kind = kind;
  event.unix_milliseconds = seconds * 1000;
  return event;
}

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("a job with a restart in Prometheus' words") {
  JobMetrics metrics;
  Event event = at(1000, EventKind::begin);
  event.job = "a\"b\\c\nd";
  CHECK(metrics.note(event));
  event = at(1004, EventKind::plan);
  event.nodes = 2;
  event.workers = 16;
  CHECK(metrics.note(event));
  CHECK(metrics.note(at(1005, EventKind::attempt)));
  CHECK_FALSE(metrics.note(at(1006, EventKind::exit)));
  metrics.note(at(1010, EventKind::stop));
  event = at(1012, EventKind::restart);
  event.signal = "SIGSEGV";
  CHECK(metrics.note(event));
  metrics.note(at(1013, EventKind::attempt));
  const std::string job = "{job=\"a\\\"b\\\\c\\nd\"";
  const std::string running = metrics.render();
  CHECK(has(running, "ddprun_running" + job + "} 1"));
  CHECK(has(running, "ddprun_nodes" + job + "} 2"));
  CHECK(has(running, "ddprun_workers" + job + "} 16"));
  CHECK(has(running, "ddprun_rendezvous_seconds" + job + "} 4"));
  CHECK(has(running, "ddprun_attempts_total" + job + "} 2"));
  CHECK(has(running, "ddprun_restarts_total" + job + ",cause=\"SIGSEGV\"} 1"));
  CHECK(has(running, "ddprun_lost_seconds_total" + job + "} 3"));
  CHECK(running.find("ddprun_exit_code") == std::string::npos);
  event = at(1020, EventKind::end);
  event.exit_code = 143;
  CHECK(metrics.note(event));
  CHECK(has(metrics.render(), "ddprun_running" + job + "} 0"));
  CHECK(has(metrics.render(), "ddprun_exit_code" + job + "} 143"));
}

TEST_CASE("hangs are counted, also those that are only reported, and name the cause of a restart") {
  JobMetrics metrics;
  metrics.note(at(1000, EventKind::begin));
  CHECK(metrics.note(at(1001, EventKind::hang)));
  CHECK(has(metrics.render(), "ddprun_hangs_total{job=\"\"} 1"));
  metrics.note(at(1002, EventKind::restart));
  metrics.note(at(1003, EventKind::attempt));
  metrics.note(at(1004, EventKind::restart));  // a node came or went
  metrics.note(at(1005, EventKind::attempt));
  metrics.note(at(1006, EventKind::failed));
  metrics.note(at(1007, EventKind::restart));
  metrics.note(at(1008, EventKind::attempt));
  metrics.note(at(1009, EventKind::asked));
  metrics.note(at(1010, EventKind::failed));  // of a worker that was being stopped
  metrics.note(at(1011, EventKind::restart));
  for (const char* cause : {"hang", "nodes", "not_started", "asked"})
    CHECK(has(metrics.render(), std::string("ddprun_restarts_total{job=\"\",cause=\"") + cause + "\"} 1"));
}

TEST_CASE("the time that ranks were waited for adds up, by rank") {
  JobMetrics metrics;
  metrics.note(at(1000, EventKind::begin));
  CHECK(metrics.render().find("waited_for") == std::string::npos);
  for (const double seconds : {30.0, 24.5}) {
    Event event = at(1300, EventKind::waited);
    event.rank = 5;
    event.seconds = seconds;
    CHECK(metrics.note(event));
  }
  CHECK(has(metrics.render(), "ddprun_rank_waited_for_seconds_total{job=\"\",rank=\"5\"} 54.5"));
}

TEST_CASE("every family has its help and its type once") {
  const std::string text = JobMetrics().render();
  std::size_t samples = 0;
  for (std::size_t at = 0; (at = text.find("# TYPE ", at)) != std::string::npos; ++at) ++samples;
  std::size_t helps = 0;
  for (std::size_t at = 0; (at = text.find("# HELP ", at)) != std::string::npos; ++at) ++helps;
  CHECK(samples == 9);
  CHECK(helps == samples);
  CHECK(text.ends_with("\n"));
}

TEST_CASE("a job that still runs stays in a file that another job writes, and one that has ended goes") {
  const auto text_of = [](const char* job, int pid, bool ended) {
    JobMetrics metrics({"n1/pid:[1]", pid, 77});
    Event event = at(1000, EventKind::begin);
    event.job = job;
    metrics.note(event);
    if (ended) metrics.note(at(1020, EventKind::end));
    return metrics.render();
  };
  const auto merge = [](const std::string& text, const std::string& before, int alive) {
    return merge_metrics(text, before, [alive](const MetricsKeeper& keeper) {
      CHECK((keeper.host == "n1/pid:[1]" && keeper.started == 77));
      return keeper.pid == alive;
    });
  };
  const std::string one = text_of("o\"n} 1e", 4, false);
  const std::string both = merge(text_of("two", 5, false), one, 4);
  CHECK(has(both, "ddprun_running{job=\"o\\\"n} 1e\"} 1"));
  CHECK(has(both, "ddprun_running{job=\"two\"} 1"));
  std::size_t types = 0;
  for (std::size_t at = 0; (at = both.find("# TYPE ddprun_running ", at)) != std::string::npos; ++at) ++types;
  CHECK(types == 1);
  const std::string three = merge(text_of("two", 5, true), both, 4);
  CHECK(has(three, "ddprun_running{job=\"o\\\"n} 1e\"} 1"));
  CHECK(has(three, "ddprun_running{job=\"two\"} 0"));
  CHECK(has(three, "ddprun_exit_code{job=\"two\"} 0"));
  const std::string first = merge(one, three, 5);
  CHECK(first.find("two") == std::string::npos);  // it has ended
  CHECK(merge(one, both, 0) == one);              // its process has gone
  CHECK(merge(one, "# HELP other metrics\nother 1\n{job=\"", 5) == one);
}
