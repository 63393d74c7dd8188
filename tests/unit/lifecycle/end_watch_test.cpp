#include "lifecycle/end_watch.hpp"

#include <csignal>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;
using namespace std::chrono_literals;

namespace {

const TimePoint k_start{};

options::TimeLimitOptions warned(Milliseconds before) {
  options::TimeLimitOptions options;
  options.signal = sourced(options::SignalBeforeEnd{SIGUSR1, before}, "--signal-before-end");
  return options;
}

options::TimeLimitOptions at_least(Milliseconds min_attempt) {
  options::TimeLimitOptions options;
  options.min_attempt = sourced(min_attempt, "--min-attempt-time");
  return options;
}

// "ask", "know 600", "warn 120", "unknown"; seconds from the start, and seconds left.
std::string text_of(const EndWatch::Actions& actions) {
  std::string text;
  for (const EndWatch::Action& action : actions) {
    if (!text.empty()) text += ", ";
    if (std::holds_alternative<EndWatch::Ask>(action)) text += "ask";
    if (std::holds_alternative<EndWatch::SayUnknown>(action)) text += "unknown";
    if (const auto* know = std::get_if<EndWatch::Know>(&action))
      text += "know " + std::to_string((know->end - k_start) / 1s);
    if (const auto* warn = std::get_if<EndWatch::Warn>(&action))
      text += "warn " + std::to_string(warn->left / 1s);
  }
  return text;
}

}  // namespace

TEST_CASE("the workers are warned once, that long before the job's end") {
  EndWatch watch(warned(120s));
  CHECK(text_of(watch.on_start(600s, k_start)) == "know 600");
  CHECK(watch.deadline() == k_start + 477s);
  CHECK(text_of(watch.on_time(k_start + 477s)) == "ask");
  CHECK_FALSE(watch.deadline());
  CHECK(text_of(watch.on_answer(122s, k_start + 478s)).empty());
  CHECK(watch.deadline() == k_start + 480s);
  CHECK_FALSE(watch.warned());
  CHECK(text_of(watch.on_time(k_start + 480s)) == "warn 120");
  CHECK(watch.warned());
  CHECK_FALSE(watch.deadline());
  CHECK(text_of(watch.on_time(k_start + 590s)).empty());
  CHECK(text_of(watch.on_start(10s, k_start + 590s)).empty());
}

TEST_CASE("a time limit that was extended meanwhile moves the warning") {
  EndWatch watch(warned(120s));
  watch.on_start(600s, k_start);
  watch.on_time(k_start + 477s);
  CHECK(text_of(watch.on_answer(723s, k_start + 477s)) == "know 1200");
  CHECK(watch.deadline() == k_start + 1077s);
  CHECK(text_of(watch.on_time(k_start + 1077s)) == "ask");
}

TEST_CASE("without an answer what was known before counts") {
  EndWatch watch(warned(120s));
  watch.on_start(600s, k_start);
  watch.on_time(k_start + 477s);
  CHECK(text_of(watch.on_answer({}, k_start + 481s)) == "warn 119");
}

TEST_CASE("the scheduler is asked where the job's variables do not say the end") {
  EndWatch watch(warned(120s));
  CHECK(text_of(watch.on_start({}, k_start)) == "ask");
  CHECK(text_of(watch.on_answer(600s, k_start + 1s)) == "know 601");
  CHECK(watch.deadline() == k_start + 478s);
}

TEST_CASE("that the end is not known is said once") {
  EndWatch watch(warned(120s));
  watch.on_start({}, k_start);
  CHECK(text_of(watch.on_answer({}, k_start + 1s)) == "unknown");
  CHECK(text_of(watch.on_answer({}, k_start + 2s)).empty());
  CHECK_FALSE(watch.deadline());
}

TEST_CASE("a job that starts within the time of its warning is warned at once") {
  EndWatch watch(warned(120s));
  CHECK(text_of(watch.on_start(60s, k_start)) == "know 60, ask");
  CHECK(text_of(watch.on_answer(60s, k_start)) == "warn 60");
  EndWatch asked(warned(120s));
  CHECK(text_of(asked.on_start({}, k_start)) == "ask");
  CHECK(text_of(asked.on_answer(60s, k_start)) == "know 60, warn 60");
}

TEST_CASE("the end is looked at again when it begins to rule out a restart") {
  EndWatch watch(at_least(300s));
  CHECK(text_of(watch.on_start(600s, k_start)) == "know 600");
  CHECK(watch.deadline() == k_start + 300s);
  CHECK(text_of(watch.on_time(k_start + 300s)) == "ask");
  CHECK(text_of(watch.on_answer(301s, k_start + 300s)).empty());
  CHECK_FALSE(watch.deadline());
  CHECK_FALSE(watch.warned());
}

TEST_CASE("for checkpoints that are flushed the end is asked for, and nothing is said without an answer") {
  options::TimeLimitOptions options;
  options.resumes = true;
  EndWatch watch(options);
  CHECK(text_of(watch.on_start(std::nullopt, k_start)) == "ask");
  CHECK(text_of(watch.on_answer(std::nullopt, k_start)).empty());
  CHECK(text_of(EndWatch(options).on_start(600s, k_start)) == "know 600");
}

TEST_CASE("nothing is asked where no option needs the end") {
  EndWatch watch(options::TimeLimitOptions{});
  CHECK(watch.on_start({}, k_start).empty());
  CHECK(watch.on_start(600s, k_start).empty());
  CHECK_FALSE(watch.deadline());
}

TEST_CASE("what is left is said as people say it") {
  CHECK(describe_left(-5s) == "0 s");
  CHECK(describe_left(44600ms) == "45 s");
  CHECK(describe_left(119990ms) == "2 min");
  CHECK(describe_left(9min) == "9 min");
  CHECK(describe_left(24h - 1min) == "23 h 59 min");
}
