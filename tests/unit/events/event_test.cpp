#include "events/event.hpp"

#include <algorithm>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::events;

namespace {

Event full() {
  Event event;
  event.kind = EventKind::failed;
  event.unix_milliseconds = 1795300000123;
  event.host = "n2";
  event.job = "7";
  event.attempt = 1;
  event.rank = 3;
  event.local_rank = 1;
  event.pid = 4711;
  event.nodes = 2;
  event.workers = 4;
  event.gpu = "GPU-5c2f";
  event.exit_code = 1;
  event.signal = "SIGSEGV";
  event.seconds = 1.5;
  event.what = "rank 3 on n2 exited with code 1";
  event.hint = "do this";
  event.lines = {"a", "", "\"b\" <c>"};
  return event;
}

}  // namespace

TEST_CASE("an event is one line that reads back as itself") {
  const std::string line = render_event(full());
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  CHECK(parse_event(line) == full());
  for (int kind = 0; kind <= static_cast<int>(EventKind::end); ++kind) {
    Event event;
    event.kind = static_cast<EventKind>(kind);
    CHECK(parse_event(render_event(event)) == event);
  }
}

TEST_CASE("what does not apply is left out") {
  Event event;
  event.unix_milliseconds = 1500;
  event.kind = EventKind::output;
  event.host = "n1";
  event.rank = 0;
  CHECK(render_event(event) == "{\"time\":1.5,\"event\":\"output\",\"host\":\"n1\",\"rank\":0}\n");
}

TEST_CASE("what workers wrote cannot tear a line or make it too long") {
  Event event = full();
  event.lines = {"two\nlines", "\xff\x1b[31m"};
  const std::string line = render_event(event);
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  CHECK(parse_event(line)->lines == std::vector<std::string>{"two\nlines", "\xef\xbf\xbd\x1b[31m"});
  event.lines.assign(100, std::string(1000, 'x'));
  CHECK(render_event(event).size() <= k_max_event);
  CHECK(parse_event(render_event(event))->what == event.what);
}

TEST_CASE("what is not an event is nothing") {
  for (const char* line :
       {"", "x", "[]", "{}", R"({"event":"end"})", R"({"event":"dance","time":1})",
        R"({"event":"exit","time":"now"})", R"({"event":"exit","time":1,"rank":"three"})",
        R"({"event":"exit","time":1e67})", R"({"event":"exit","time":-1})",
        R"({"event":"exit","time":1,"rank":1e67})", R"({"event":"exit","time":1,"pid":4294967296})",
        R"({"event":"exit","time":1,"exit_code":18446744073709551615})"}) {
    CAPTURE(line);
    CHECK_FALSE(parse_event(line).has_value());
  }
}
