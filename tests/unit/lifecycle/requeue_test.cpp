#include "lifecycle/end_watch.hpp"

#include <csignal>

#include "base/error.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;

namespace {

options::TimeLimitOptions requeued(int most = 0) {
  options::TimeLimitOptions options;
  options.signal = sourced(options::SignalBeforeEnd{SIGUSR1, Milliseconds{120000}}, "--signal-before-end");
  options.requeue = sourced(most, "--requeue");
  options.requeue_on = sourced(std::vector{85, 99}, "--requeue-on");
  return options;
}

RequeueFacts in_slurm(bool warned) {
  RequeueFacts facts;
  facts.scheduler = facts::Scheduler::slurm;
  facts.job = "29";
  facts.warned = warned;
  return facts;
}

report::Cause failed(int code) {
  report::Cause cause;
  cause.kind = report::Cause::Kind::worker_failed;
  cause.failure.status = {ExitStatus::Kind::exited, code, {}, false};
  return cause;
}

report::Cause stopped(int signal, const std::string& detail = {}) {
  report::Cause cause;
  cause.kind = report::Cause::Kind::stopped_by_signal;
  cause.signal = signal;
  cause.detail = detail;
  return cause;
}

}  // namespace

TEST_CASE("a job whose workers ended after the warning is requeued, whatever their exit code") {
  for (const report::Cause& cause : {report::Cause{}, failed(1)}) {
    const RequeueDecision decision = decide_requeue(requeued(3), cause, in_slurm(true));
    CHECK(decision.ask);
    CHECK(decision.what == "requeuing job 29: its workers ended after SIGUSR1 (restart 1 of 3)");
    CHECK_FALSE(decide_requeue(requeued(3), cause, in_slurm(false)).ask);
    CHECK(decide_requeue(requeued(3), cause, in_slurm(false)).what.empty());
  }
}

TEST_CASE("a job that fails with a code of --requeue-on is requeued, warned or not") {
  const RequeueDecision decision = decide_requeue(requeued(), failed(85), in_slurm(false));
  CHECK(decision.ask);
  CHECK(decision.what == "requeuing job 29: exit code 85 is in --requeue-on (restart 1)");
}

TEST_CASE("a code of --no-requeue-on keeps a job from being requeued, whatever speaks for it") {
  options::TimeLimitOptions options = requeued();
  options.no_requeue_on = sourced(std::vector{77, 99}, "--no-requeue-on");
  for (const int code : {77, 99}) {
    const RequeueDecision decision = decide_requeue(options, failed(code), in_slurm(true));
    CHECK_FALSE(decision.ask);
    CHECK(decision.what ==
          "job 29 is not requeued: exit code " + std::to_string(code) + " is in --no-requeue-on");
  }
  CHECK(decide_requeue(options, failed(85), in_slurm(false)).ask);
  CHECK(decide_requeue(options, failed(77), in_slurm(false)).what.empty());  // nothing speaks for it
}

TEST_CASE("a job that ends because of an unfit node is requeued by its code") {
  options::TimeLimitOptions options = requeued();
  report::Cause unfit;
  unfit.kind = report::Cause::Kind::launcher_failed;
  unfit.detail = "n2 is unfit for another attempt";
  unfit.exit_code = k_exit_unfit;
  CHECK_FALSE(decide_requeue(options, unfit, in_slurm(false)).ask);
  options.requeue_on = sourced(std::vector{85, k_exit_unfit}, "--requeue-on");
  CHECK(decide_requeue(options, unfit, in_slurm(false)).what ==
        "requeuing job 29: exit code 123 is in --requeue-on (restart 1)");
}

TEST_CASE(
    "a job that its time limit ends is requeued after the warning; who stops it by hand wants it to end") {
  RequeueFacts at_limit = in_slurm(true);
  at_limit.at_time_limit = true;
  CHECK(decide_requeue(requeued(), stopped(SIGTERM, "job 29 reached its time limit of 01:00:00"), at_limit)
            .what == "requeuing job 29: it reached its time limit (restart 1)");
  CHECK_FALSE(decide_requeue(requeued(), stopped(SIGTERM, "job 29 was cancelled"), in_slurm(true)).ask);
  CHECK_FALSE(decide_requeue(requeued(), stopped(SIGUSR1, "sent by bash, pid 7"), in_slurm(true)).ask);
  CHECK(decide_requeue(requeued(), stopped(SIGUSR1), in_slurm(true)).ask);
  at_limit.warned = false;
  CHECK_FALSE(decide_requeue(requeued(), stopped(SIGTERM), at_limit).ask);
}

TEST_CASE("a job that its time limit ends is requeued without a warning if what it saved is flushed") {
  options::TimeLimitOptions options;
  options.requeue = sourced(0, "--requeue");
  options.resumes = true;
  RequeueFacts facts = in_slurm(false);
  CHECK_FALSE(decide_requeue(options, stopped(SIGTERM, "job 29 was cancelled"), facts).ask);
  facts.at_time_limit = true;
  CHECK(decide_requeue(options, stopped(SIGTERM), facts).what ==
        "requeuing job 29: it reached its time limit (restart 1)");
  CHECK_FALSE(decide_requeue(options, failed(1), facts).ask);
  CHECK_FALSE(decide_requeue(options, report::Cause{}, facts).ask);
  options.resumes = false;
  CHECK_FALSE(decide_requeue(options, stopped(SIGTERM), facts).ask);
}

TEST_CASE("a job that was requeued as often as --requeue allows is not requeued again") {
  RequeueFacts facts = in_slurm(true);
  facts.restarts = 3;
  const RequeueDecision decision = decide_requeue(requeued(3), report::Cause{}, facts);
  CHECK_FALSE(decision.ask);
  CHECK(decision.what == "job 29 is not requeued: it was requeued 3 times already (--requeue=3)");
  CHECK(decide_requeue(requeued(), report::Cause{}, facts).what ==
        "requeuing job 29: its workers ended after SIGUSR1 (restart 4)");
}

TEST_CASE("where ddprun cannot ask the scheduler it says so") {
  RequeueFacts facts = in_slurm(true);
  facts.scheduler = facts::Scheduler::lsf;
  CHECK(decide_requeue(requeued(), report::Cause{}, facts).what ==
        "job 29 is not requeued: --requeue does not support the scheduler lsf");
  facts.job.clear();
  CHECK(decide_requeue(requeued(), report::Cause{}, facts).what ==
        "not requeued: ddprun does not run in a job");
}

TEST_CASE("a job that the scheduler does not show is not requeued, as its id might mean a whole array") {
  RequeueFacts facts = in_slurm(true);
  facts.shown = false;
  const RequeueDecision decision = decide_requeue(requeued(), report::Cause{}, facts);
  CHECK_FALSE(decision.ask);
  CHECK(decision.what == "job 29 is not requeued: the scheduler does not show it");
  CHECK(decision.hint == "requeue it by hand with scontrol requeue, an element of an array as ARRAY_TASK");
}

TEST_CASE("without --requeue nothing is asked or said") {
  options::TimeLimitOptions options = requeued();
  options.requeue.reset();
  CHECK(decide_requeue(options, failed(85), in_slurm(true)).what.empty());
}

TEST_CASE("the scheduler's own program is asked") {
  CHECK(requeue_command(facts::Scheduler::slurm, "29") ==
        std::vector<std::string>{"scontrol", "requeue", "29"});
  CHECK(requeue_command(facts::Scheduler::pbs, "29.ctl") == std::vector<std::string>{"qrerun", "29.ctl"});
  CHECK(requeue_command(facts::Scheduler::flux, "f1").empty());
}
