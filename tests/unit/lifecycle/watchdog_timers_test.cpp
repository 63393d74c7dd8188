#include "lifecycle/watchdog_timers.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;

namespace {

// As json.dumps of torch writes it.
std::string request(int pid, const std::string& scope, double time, int signal = 9) {
  return R"({"version": 1, "pid": )" + std::to_string(pid) + R"(, "scope_id": ")" + scope +
         R"(", "expiration_time": )" + std::to_string(time) + R"(, "signal": )" + std::to_string(signal) +
         "}\n";
}

using Expired = std::vector<WatchdogTimers::Expired>;

}  // namespace

TEST_CASE("a timer that is not taken back expires, once") {
  WatchdogTimers timers;
  CHECK_FALSE(timers.next());
  timers.feed(request(70, "step", 100.5));
  CHECK(timers.next() == 100.5);
  CHECK(timers.take_expired(100.4).empty());
  CHECK(timers.take_expired(100.5) == Expired{{70, "step", 9}});
  CHECK(timers.take_expired(200).empty());
}

TEST_CASE("a timer that was taken back or set anew counts as it is now") {
  WatchdogTimers timers;
  timers.feed(request(70, "a", 100) + request(71, "a", 100) + request(71, "a", 300) +
              request(70, "a", -1, 0));
  CHECK(timers.next() == 300.0);
  CHECK(timers.take_expired(200).empty());
}

TEST_CASE("a process is told once, by its earliest timer that has a signal") {
  WatchdogTimers timers;
  timers.feed(request(70, "late", 120) + request(70, "none", 90, 0) + request(70, "early", 110, 15));
  timers.feed(request(71, "silent", 50, -1) + request(72, "open", 500));
  CHECK(timers.take_expired(200) == Expired{{70, "early", 15}});
  CHECK(timers.next() == 500.0);
}

TEST_CASE("requests may be cut anywhere, and what is none is dropped") {
  WatchdogTimers timers;
  const std::string text = request(70, "a", 100) + "no json\n{}\n[1]\n" + request(1, "init", 1) +
                           R"({"pid": "x", "scope_id": 1, "expiration_time": [], "signal": {}})" + "\n" +
                           request(71, "b", 100);
  for (const char byte : text) timers.feed({&byte, 1});
  CHECK(timers.take_expired(100) == Expired{{70, "a", 9}, {71, "b", 9}});
  timers.feed(std::string(5000, 'x'));
  timers.feed("\n" + request(72, "c", 100));
  CHECK(timers.take_expired(100) == Expired{{72, "c", 9}});
}
