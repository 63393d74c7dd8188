#include "lifecycle/restart_policy.hpp"

#include <cerrno>
#include <csignal>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;
using namespace std::chrono_literals;
using options::RestartOptions;
using options::RestartRule;

namespace {

constexpr Milliseconds k_at_once{0};

report::Failure exited(int code, std::vector<std::string> lines = {}) {
  report::Failure failure;
  failure.host = "n1";
  failure.status = {ExitStatus::Kind::exited, code, {}, false};
  failure.last_lines = std::move(lines);
  return failure;
}

report::Failure killed(int signal) {
  report::Failure failure = exited(0);
  failure.status = {ExitStatus::Kind::signalled, signal, {}, false};
  return failure;
}

report::Failure not_started(int error, StartStage stage) {
  report::Failure failure = exited(0);
  failure.status = {ExitStatus::Kind::not_started, error, stage, false};
  return failure;
}

RestartOptions options_of(RestartRule rule) {
  RestartOptions options;
  options.rule = sourced(rule, "--restart-policy");
  return options;
}

// How many of these attempts are answered with a restart before one is not.
int restarts_for(RestartPolicy policy, const std::vector<AttemptEnd>& ends) {
  int restarts = 0;
  for (const AttemptEnd& end : ends) {
    if (!policy.note_end(end).restart) break;
    ++restarts;
  }
  return restarts;
}

int restarts_for(const std::vector<AttemptEnd>& ends) { return restarts_for({100, {}}, ends); }

}  // namespace

TEST_CASE("the same failure twice in a row without progress is not answered again") {
  CHECK(restarts_for({{exited(1), 2s}, {exited(1), 2s}}) == 1);
  CHECK(restarts_for({{exited(1), 2s}, {exited(2), 2s}, {exited(1), 2s}, {exited(2), 2s}}) == 4);
  CHECK(restarts_for({{exited(1), 2s}, {exited(2), 2s}, {exited(2), 2s}, {exited(1), 2s}}) == 2);
}

TEST_CASE("a worker that ran longer than the least time made progress, and both attempts count") {
  const AttemptEnd quick{exited(1), 2s}, longest{exited(1), 5min}, longer{exited(1), 5min + 1ms};
  CHECK(restarts_for({longest, longest}) == 1);
  CHECK(restarts_for({longer, longer, longer}) == 3);
  CHECK(restarts_for({quick, longer, quick, longer, quick}) == 5);
  CHECK(restarts_for({longer, quick, quick}) == 2);  // the first restart after progress is not the last one
}

TEST_CASE("a worker that touched its progress file made progress, however short it ran") {
  const AttemptEnd quick{exited(1), 2s}, touched{exited(1), 2s, true};
  CHECK(restarts_for({touched, touched, touched}) == 3);
  CHECK(restarts_for({quick, touched, quick, quick}) == 3);
}

TEST_CASE("the least time of progress can be set") {
  RestartOptions options;
  options.min_progress = sourced(Milliseconds(1s), "--min-progress");
  CHECK(restarts_for({100, options}, {{exited(1), 2s}, {exited(1), 2s}, {exited(1), 2s}}) == 3);
}

TEST_CASE("always answers every failure, never none, and neither more than were asked for") {
  const std::vector<AttemptEnd> same(5, {exited(1), k_at_once});
  CHECK(restarts_for({100, options_of(RestartRule::always)}, same) == 5);
  CHECK(restarts_for({3, options_of(RestartRule::always)}, same) == 3);
  CHECK(restarts_for({3, options_of(RestartRule::never)}, same) == 0);
  CHECK(restarts_for({0, {}}, same) == 0);
}

TEST_CASE("where no restart is left nothing more is said of it") {
  CHECK(RestartPolicy(0, {}).note_end({exited(1), 2s}).why.empty());
  CHECK(RestartPolicy(3, options_of(RestartRule::never)).note_end({exited(1), 2s}).why.empty());
}

TEST_CASE("the end by the policy says so and how it would have gone on") {
  RestartPolicy policy(3, {});
  CHECK(policy.note_end({exited(1), 2s}).why.empty());
  const RestartDecision decision = policy.note_end({exited(1), 2s});
  CHECK(decision.why == "the same failure occurred twice in a row, and no worker made progress");
  CHECK(decision.hint ==
        "--restart-policy always restarts without progress too; progress is a run of 5 min (--min-progress) "
        "or touching $DDPRUN_PROGRESS_FILE");
}

TEST_CASE("exit codes of --no-restart-on end the job, 128+n for a signal") {
  RestartOptions options;
  options.no_restart_on = sourced(std::vector<int>{3, 137}, "--no-restart-on");
  const auto decide = [&](const report::Failure& failure) {
    return RestartPolicy(3, options).decide({failure, 1h});
  };
  CHECK(decide(exited(3)).why == "exit code 3 is in --no-restart-on");
  CHECK(decide(killed(SIGKILL)).why == "exit code 137 is in --no-restart-on");
  CHECK(decide(exited(4)).restart);
  CHECK(decide(killed(SIGSEGV)).restart);
}

TEST_CASE("a program that is not there or is none is not started again") {
  const auto decide = [](const report::Failure& failure) {
    return RestartPolicy(3, options_of(RestartRule::always)).decide({failure, k_at_once});
  };
  CHECK(decide(not_started(ENOENT, StartStage::exec)).why == "another attempt would fail in the same way");
  CHECK_FALSE(decide(not_started(EACCES, StartStage::exec)).restart);
  CHECK_FALSE(decide(not_started(ENOENT, StartStage::interpreter)).restart);
  CHECK(decide(not_started(EAGAIN, StartStage::process)).restart);
  CHECK(decide(exited(127)).restart);
}

TEST_CASE("two causes are the same by how they ended and what they said, on whichever rank") {
  report::Failure one = exited(1, {"ValueError: bad sample 17 of rank 3"});
  report::Failure other = exited(1, {"ValueError: bad sample 9 of rank 0"});
  other.rank = {7};
  other.host = "n4";
  other.pid = 4711;
  CHECK(is_same_cause(one, other));
  CHECK_FALSE(is_same_cause(one, exited(1, {"KeyError: 'loss'"})));
  CHECK_FALSE(is_same_cause(one, exited(2, one.last_lines)));
  CHECK(is_same_cause(exited(1, {"<Tensor at 0x7fab12> is bad"}), exited(1, {"<Tensor at 0x55cd> is bad"})));
  CHECK(is_same_cause(exited(1), exited(1)));
}

TEST_CASE("of a Python worker its exception counts, not what was written after it") {
  const auto worker = [](const std::string& exception) {
    return exited(1, {"[rank0]: Traceback (most recent call last):", "[rank0]:   File \"train.py\", line 3",
                      "[rank0]:     main()", "[rank0]: " + exception,
                      "[rank0]:[W1123 12:00:00.1] Warning: destroy_process_group() was not called"});
  };
  CHECK_FALSE(is_same_cause(worker("ConnectionError: no route"), worker("ValueError: bad")));
  CHECK(is_same_cause(worker("ValueError: bad"), worker("ValueError: bad")));
  report::Failure recorded = worker("ValueError: bad");  // the same from its error file
  recorded.message =
      "Traceback (most recent call last):\n  File \"train.py\", line 3\n    main()\nValueError: bad\n";
  CHECK(is_same_cause(recorded, worker("ValueError: bad")));
}

TEST_CASE("rows of a list are no traceback: the last line counts") {
  CHECK_FALSE(
      is_same_cause(exited(1, {"found:", "  a", "b", "first"}), exited(1, {"found:", "  a", "b", "second"})));
}

TEST_CASE("a death by signal says all by itself, but for an abort") {
  report::Failure one = killed(SIGSEGV), other = killed(SIGSEGV);
  one.last_lines = {"step one"};
  other.last_lines = {"step two"};
  other.status.core_dumped = true;
  CHECK(is_same_cause(one, other));
  CHECK(is_same_cause(one, exited(139)));  // from a shell in between
  CHECK_FALSE(is_same_cause(one, killed(SIGBUS)));
  one.status.value = other.status.value = SIGABRT;
  CHECK_FALSE(is_same_cause(one, other));
}

TEST_CASE("out of memory is another death than a kill from outside") {
  report::Failure memory = killed(SIGKILL);
  memory.out_of_memory = "the limit of 4.0 GiB of its cgroup was reached";
  report::Failure again = memory;
  again.out_of_memory = "the host's memory";
  CHECK_FALSE(is_same_cause(memory, killed(SIGKILL)));
  CHECK(is_same_cause(memory, again));
}

TEST_CASE("the same well-known failure is the same cause, whatever the words") {
  report::Failure one = exited(1, {"No space left on device: /scratch/a"}),
                  other = exited(1, {"Disk quota exceeded"});
  CHECK_FALSE(is_same_cause(one, other));
  one.hint = other.hint = "a file system is full or a quota is used up: look at df -h";
  CHECK(is_same_cause(one, other));
}

TEST_CASE("a rank that was stopped while it failed is the same as one that came to its exit code") {
  report::Failure stopped = killed(SIGTERM);
  stopped.after_stop = true;
  stopped.last_lines = {"  File \"train.py\", line 3", "    main()", "ValueError: bad"};
  CHECK(is_same_cause(stopped, exited(1, {"ValueError: bad"})));
}

TEST_CASE("without a backoff nothing waits") {
  RestartPolicy policy(100, options_of(RestartRule::always));
  for (int i = 0; i < 20; ++i) CHECK(policy.note_end({exited(1), k_at_once}).delay == 0ms);
  CHECK(policy.longest_delay() == 0ms);
}

TEST_CASE("the wait doubles with each quick failure, up to a minute, and an attempt that ran begins anew") {
  RestartOptions options = options_of(RestartRule::always);
  options.backoff = sourced(Milliseconds(5s), "--restart-backoff");
  RestartPolicy policy(100, options);
  CHECK(policy.longest_delay() == 1min);
  const auto delay = [&](Milliseconds ran) { return policy.note_end({exited(1), ran}).delay; };
  CHECK(delay(k_at_once) == 5s);
  CHECK(delay(10s) == 10s);
  CHECK(delay(1s) == 20s);
  CHECK(delay(1s) == 40s);
  CHECK(delay(1s) == 60s);
  CHECK(delay(1s) == 60s);
  CHECK(delay(10s + 1ms) == 0s);
  CHECK(delay(1s) == 5s);
}

TEST_CASE("what was only asked about changes nothing") {
  RestartPolicy policy(1, {});
  CHECK(policy.decide({exited(1), 2s}).restart);
  CHECK(policy.decide({exited(1), 2s}).restart);
  CHECK(policy.note_end({exited(1), 2s}).restart);
  CHECK_FALSE(policy.decide({exited(2), 2s}).restart);
}

TEST_CASE("the budget and what used it are known, without what the workers said") {
  RestartPolicy policy(1000, options_of(RestartRule::always));
  policy.note_end({exited(1, {"ValueError: bad"}), 2s});
  CHECK(policy.used() == report::UsedRestarts{1, 1000, {exited(1)}});
  for (int i = 2; i <= 300; ++i) policy.note_end({exited(i % 256), 2s});
  CHECK(policy.used().used == 300);
  REQUIRE(policy.used().causes.size() == k_max_restart_causes);
  CHECK(policy.used().causes.back() == exited(300 % 256));
}

TEST_CASE("a code of --requeue-on is not answered with a restart where the job is requeued") {
  options::TimeLimitOptions limit;
  limit.requeue_on = sourced(std::vector{85}, "--requeue-on");
  CHECK(RestartPolicy(3, {}, limit).decide({exited(85), 2s}).restart);
  limit.requeue = sourced(0, "--requeue");
  CHECK(RestartPolicy(3, {}, limit).decide({exited(85), 2s}).why == "exit code 85 is in --requeue-on");
  CHECK(RestartPolicy(3, {}, limit).decide({exited(1), 2s}).restart);
}

TEST_CASE("the wait before a restart counts against --min-attempt-time") {
  options::TimeLimitOptions limit;
  limit.min_attempt = sourced(Milliseconds{60000}, "--min-attempt-time");
  RestartOptions slow;
  slow.backoff = sourced(Milliseconds{5000}, "--restart-backoff");
  AttemptEnd end{exited(1), 2s};
  end.left = 62s;
  CHECK(RestartPolicy(3, {}, limit).decide(end).restart);
  CHECK(RestartPolicy(3, slow, limit).decide(end).why ==
        "the job ends in 62 s, and --min-attempt-time asks for 60 s for an attempt");
}
