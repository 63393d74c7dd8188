#include "lifecycle/agent_lifecycle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "catch.hpp"
#include "random_seed.hpp"

using namespace ddprun;
using namespace ddprun::lifecycle;

namespace {

using Words = std::vector<std::string>;

constexpr TimePoint k_start{};
TimePoint at(int milliseconds) { return k_start + Milliseconds{milliseconds}; }

struct Describe {
  std::string operator()(const life::SayError& a) const { return "error: " + a.what; }
  std::string operator()(const life::Say& a) const { return "say: " + a.what; }
  std::string operator()(const life::TellFirstStop&) const { return "first stop"; }
  std::string operator()(const life::StopWorkers& a) const {
    return fmt::format("stop {}{}{}{}", a.signal, a.hurry ? " now" : "", a.undecided ? " undecided" : "",
                       a.of_job ? " of job" : "");
  }
  std::string operator()(const life::Judge& a) const {
    return fmt::format("judge {}{}", a.signal, a.maybe_tree ? " tree" : "");
  }
  std::string operator()(const life::SendStopRequest& a) const {
    return fmt::format("request {}{}{}", a.signal, a.whole_tree ? " tree" : "", a.again ? " again" : "");
  }
  std::string operator()(const life::SendStopped& a) const {
    return fmt::format("stopped {}", a.attempt.value);
  }
  std::string operator()(const life::SendStuck& a) const { return fmt::format("stuck {}", a.attempt.value); }
  std::string operator()(const life::Rejoin&) const { return "rejoin"; }
  std::string operator()(const life::TakeOutputBack&) const { return "output back"; }
  std::string operator()(const life::AbandonWorkers&) const { return "abandon"; }
  std::string operator()(const life::EndGathered& a) const {
    return fmt::format("end gathered {}{}", a.patience.count(), a.in_any_case ? " in any case" : "");
  }
  std::string operator()(const life::ReadOutput&) const { return "read"; }
  std::string operator()(const life::WriteOutput& a) const {
    return a.limit ? fmt::format("write {}", a.limit->count()) : "write";
  }
  std::string operator()(const life::GiveUpOutput&) const { return "give up"; }
  std::string operator()(const life::Leave& a) const {
    return a.limit ? fmt::format("leave {}", a.limit->count()) : "leave";
  }
};

Words words(const AgentLifecycle::Actions& actions) {
  Words all;
  for (const LifeAction& action : actions) all.push_back(std::visit(Describe{}, action));
  return all;
}

AgentLifecycle agent(std::optional<AgentLifecycle::OwnFailure> failure = {}) {
  return AgentLifecycle("n1", std::move(failure));
}

AgentLifecycle member() {
  AgentLifecycle life = agent();
  life.note_told_all();
  life.note_found();
  life.note_joined();
  return life;
}

report::Cause cause_of(report::Cause::Kind kind) {
  report::Cause cause;
  cause.kind = kind;
  return cause;
}

AgentLifecycle::OwnFailure no_script() {
  return {"cannot start train.py on n1: no such file", "name it", 127};
}

constexpr AgentLifecycle::Workers k_idle{true, true, false};
constexpr AgentLifecycle::Workers k_running{false, true, false};

}  // namespace

TEST_CASE("a member whose workers have succeeded leaves when it is told the end, with code 0") {
  AgentLifecycle life = member();
  life.note_succeeded();
  CHECK(words(life.on_workers(k_idle)).empty());
  CHECK(words(life.on_finish(cause_of(report::Cause::Kind::success), "")) == Words{"stop 15 of job"});
  CHECK(words(life.on_workers(k_idle)) == Words{"end gathered 5000", "read"});
  CHECK(words(life.on_workers(k_idle)).empty());
  CHECK(words(life.on_output_read()) == Words{"write"});
  CHECK(words(life.on_output_written()) == Words{"leave"});
  CHECK(words(life.on_output_written()).empty());
  CHECK(life.exit_code() == 0);
}

TEST_CASE("the coordinator's agent stays until all others have heard of the end") {
  AgentLifecycle life = agent();
  life.note_joined();
  life.note_succeeded();
  life.on_finish(cause_of(report::Cause::Kind::success), "");
  CHECK(words(life.on_workers(k_idle)).empty());
  life.note_told_all();
  CHECK(words(life.on_workers(k_idle)) == Words{"end gathered 5000", "read"});
}

TEST_CASE("the end waits for the workers and for what is known of how they ended") {
  AgentLifecycle life = member();
  life.on_finish(cause_of(report::Cause::Kind::worker_failed), "rank 1 on n2 exited with code 1");
  CHECK(words(life.on_workers(k_running)).empty());
  CHECK(words(life.on_workers({true, false, false})).empty());
  CHECK_FALSE(words(life.on_workers(k_idle)).empty());
}

TEST_CASE("a worker that SIGKILL does not end is left") {
  AgentLifecycle life = member();
  life.on_finish(cause_of(report::Cause::Kind::worker_failed), "");
  CHECK(words(life.on_workers({false, true, true})) == Words{"abandon", "end gathered 5000", "read"});
}

TEST_CASE("the report is said once, between what the workers wrote last and the end") {
  AgentLifecycle life = member();
  life.on_finish(cause_of(report::Cause::Kind::agent_lost), "lost the node n2");
  life.on_workers(k_idle);
  CHECK(words(life.on_output_read()) == Words{"error: lost the node n2", "write"});
  CHECK(words(life.on_output_written()) == Words{"leave"});
  CHECK(life.exit_code() == exit_code_of(cause_of(report::Cause::Kind::agent_lost)));
}

TEST_CASE("after a failure an agent lets the coordinator end first, unless somebody asked for the end") {
  const auto end = [](AgentLifecycle life, report::Cause::Kind kind, bool hurried = false) {
    life.note_succeeded();
    report::Cause cause = cause_of(kind);
    if (kind == report::Cause::Kind::worker_failed)
      cause.failure.status = {ExitStatus::Kind::exited, 7, {}, false};
    life.on_finish(cause, "");
    life.on_workers(k_idle);
    life.on_output_read();
    if (hurried) life.on_stop_signal(SIGINT, SignalWay::own, false, true, at(0));
    life.on_output_written();
    return life.lets_coordinator_end_first();
  };
  CHECK(end(member(), report::Cause::Kind::worker_failed));
  CHECK(end(member(), report::Cause::Kind::agent_lost));
  CHECK_FALSE(end(member(), report::Cause::Kind::success));
  CHECK_FALSE(end(member(), report::Cause::Kind::stopped_by_signal));
  CHECK_FALSE(end(member(), report::Cause::Kind::worker_failed, true));
  AgentLifecycle coordinator = member();
  coordinator.note_coordinates();
  coordinator.note_told_all();
  CHECK_FALSE(end(std::move(coordinator), report::Cause::Kind::worker_failed));
  AgentLifecycle alone = member();
  alone.on_lost("lost the coordinator", "");
  CHECK_FALSE(end(std::move(alone), report::Cause::Kind::worker_failed));
}

TEST_CASE("the first cause counts") {
  AgentLifecycle life = member();
  life.on_finish(cause_of(report::Cause::Kind::worker_failed), "");
  life.on_lost("lost the coordinator", "");
  life.on_workers(k_idle);
  CHECK(life.exit_code() == exit_code_of(cause_of(report::Cause::Kind::worker_failed)));
}

TEST_CASE("success is not believed before the workers here have succeeded") {
  AgentLifecycle life = member();
  CHECK_FALSE(life.believes(cause_of(report::Cause::Kind::success)));
  CHECK(words(life.on_finish(cause_of(report::Cause::Kind::success), "")) ==
        Words{"output back", "error: the coordinator reported success before the workers on n1 had ended",
              "stop 15 of job"});
  life.on_workers(k_idle);
  CHECK(life.exit_code() == exit_code_of(cause_of(report::Cause::Kind::agent_lost)));
  CHECK_FALSE(life.linked());
}

TEST_CASE("an agent that stands by has nothing to wait for, until it is started") {
  AgentLifecycle life = member();
  life.note_standby();
  CHECK(life.believes(cause_of(report::Cause::Kind::success)));
  life.note_start();
  CHECK_FALSE(life.believes(cause_of(report::Cause::Kind::success)));
}

TEST_CASE("a later attempt has to succeed again") {
  AgentLifecycle life = member();
  life.note_succeeded();
  life.note_start();
  CHECK_FALSE(life.believes(cause_of(report::Cause::Kind::success)));
}

TEST_CASE("a stop of the attempt is answered once nothing of it is left") {
  AgentLifecycle life = member();
  CHECK(words(life.on_stop(Attempt{2}, SIGTERM, false)) == Words{"stop 15 of job"});
  CHECK(words(life.on_workers(k_running)).empty());
  CHECK(words(life.on_workers(k_idle)) == Words{"stopped 2"});
  CHECK(words(life.on_workers(k_idle)).empty());
  CHECK(life.accepts_start(k_idle));
}

TEST_CASE("where a scheduler signalled a whole host, this one's ledger judges") {
  AgentLifecycle life = member();
  CHECK(words(life.on_stop(Attempt{0}, SIGTERM, true)) == Words{"stop 15 undecided of job", "judge 15 tree"});
}

TEST_CASE("a stop signal is judged, and then the coordinator is asked to stop all hosts, once") {
  AgentLifecycle life = member();
  CHECK(words(life.on_stop_signal(SIGTERM, SignalWay::own, true, false, at(0))) ==
        Words{"stop 15 undecided", "first stop", "judge 15 tree"});
  CHECK_FALSE(life.accepts_start(k_idle));
  CHECK(words(life.on_verdict({SIGTERM, false, true})) == Words{"request 15 tree"});
  CHECK(words(life.on_verdict({SIGTERM, true, false})).empty());
  CHECK(words(life.on_verdict({SIGUSR1, true, false})).empty());
}

TEST_CASE("where the coordinator does not know this agent, a stop signal ends it alone") {
  AgentLifecycle life = agent();
  life.on_stop_signal(SIGINT, SignalWay::own, false, true, at(0));
  CHECK(words(life.on_verdict({SIGINT, true, false})) == Words{"stop 15 of job"});
  life.note_told_all();
  CHECK(words(life.on_workers(k_idle)) == Words{"end gathered 2000 in any case", "read"});
  CHECK(words(life.on_output_read()) == Words{"error: stopped by SIGINT on n1", "write 2000"});
  CHECK(life.exit_code() == 128 + SIGINT);
}

TEST_CASE("a second signal of a person hurries, of a scheduler not, and within a moment it is the first") {
  AgentLifecycle life = member();
  life.on_stop_signal(SIGINT, SignalWay::own, false, true, at(0));
  CHECK(words(life.on_stop_signal(SIGINT, SignalWay::own, false, true, at(99))).empty());
  CHECK(words(life.on_stop_signal(SIGINT, SignalWay::own, false, false, at(500))).empty());
  CHECK(words(life.on_stop_signal(SIGINT, SignalWay::own, false, true, at(600))) ==
        Words{"say: SIGINT again on n1: killing the remaining processes", "stop 2 now", "request 2 again"});
  CHECK(words(life.on_stop_signal(SIGTERM, SignalWay::own, false, false, at(900))) == Words{"judge 15"});
}

TEST_CASE("that the coordinator is gone after a stop signal is no news") {
  AgentLifecycle life = member();
  life.on_stop_signal(SIGTERM, SignalWay::own, false, false, at(0));
  CHECK(words(life.on_lost("lost the coordinator", "")) == Words{"output back", "stop 15 of job"});
  life.on_workers(k_idle);
  CHECK(life.exit_code() == 128 + SIGTERM);
}

TEST_CASE("a job whose end was asked for elsewhere goes on under no other coordinator") {
  AgentLifecycle life = member();
  life.on_stop({0}, SIGINT, false);
  life.note_job_ends(SIGINT, "n3");
  CHECK(words(life.on_lost("lost the coordinator", "", /*may_rejoin=*/true)) ==
        Words{"output back", "stop 15 of job"});  // they have their grace
  life.on_workers(k_idle);
  CHECK(words(life.on_output_read()) == Words{"error: stopped by SIGINT on n3", "write 2000"});
  CHECK(life.exit_code() == 128 + SIGINT);
}

TEST_CASE("where another agent may coordinate the workers are killed, and then it is looked for") {
  AgentLifecycle life = member();
  CHECK(words(life.on_lost("lost the coordinator", "", true)) ==
        Words{"output back", "stop 15 of job", "stop 15 now"});
  CHECK(words(life.on_workers({false, true, false})).empty());
  CHECK(words(life.on_workers({true, false, false})).empty());
  CHECK(words(life.on_workers(k_idle)) == Words{"rejoin"});
  CHECK(life.linked());
  CHECK(words(life.on_workers(k_idle)).empty());
  life.note_told_all();
  CHECK(words(life.on_lost("lost it; nobody took over", "")) ==
        Words{"output back", "error: lost it; nobody took over", "stop 15 of job"});
  life.on_workers(k_idle);
  CHECK(life.exit_code() == exit_code_of(cause_of(report::Cause::Kind::agent_lost)));
}

TEST_CASE("while it looks for another coordinator a stop signal ends the job on this host") {
  const bool killed = GENERATE(false, true);  // before or after its workers have gone
  AgentLifecycle life = member();
  life.on_lost("lost the coordinator", "", true);
  if (killed) CHECK(words(life.on_workers(k_idle)) == Words{"rejoin"});
  life.note_told_all();
  life.on_stop_signal(SIGINT, SignalWay::own, false, true, at(0));
  life.on_verdict({SIGINT, false, false});
  CHECK(life.ending());
  life.on_workers(k_idle);
  CHECK(life.exit_code() == 128 + SIGINT);
}

TEST_CASE("an agent that is stopped, or has nothing to start, looks for nobody") {
  AgentLifecycle life = member();
  life.on_stop_signal(SIGTERM, SignalWay::own, false, false, at(0));
  CHECK(words(life.on_lost("lost the coordinator", "", true)) == Words{"output back", "stop 15 of job"});
}

TEST_CASE("workers that SIGKILL does not end keep an agent from another coordinator") {
  AgentLifecycle life = member();
  life.on_lost("lost the coordinator", "", true);
  const Words said = words(life.on_workers({false, true, true}));
  CHECK(said.front() ==
        "error: lost the coordinator, and n1 cannot join another one: SIGKILL has not ended its workers");
  CHECK(life.exit_code() == exit_code_of(cause_of(report::Cause::Kind::agent_lost)));
}

TEST_CASE("a coordinator that was never found is a deadline, one that was found is lost") {
  AgentLifecycle never = agent();
  never.note_told_all();
  CHECK(words(never.on_lost("cannot join", "")) ==
        Words{"output back", "error: cannot join", "stop 15 of job"});
  never.on_workers(k_idle);
  CHECK(never.exit_code() == exit_code_of(cause_of(report::Cause::Kind::deadline)));
  AgentLifecycle found = agent();
  found.note_found();
  found.on_lost("lost the coordinator", "");
  found.on_workers(k_idle);
  CHECK(found.exit_code() == exit_code_of(cause_of(report::Cause::Kind::agent_lost)));
}

TEST_CASE("a worker's death that asks for the end stops this host's workers and asks for all") {
  AgentLifecycle life = member();
  CHECK(words(life.on_request(SIGINT)) == Words{"stop 2", "request 2"});
}

TEST_CASE("losing the ddprun that started it is a stop signal that has been explained") {
  AgentLifecycle life = agent();
  CHECK(words(life.on_front_end_lost(at(0))) == Words{"stop 15 undecided", "first stop", "judge 15"});
  life.on_verdict({SIGTERM, true, false});
  life.note_told_all();
  life.on_workers(k_idle);
  CHECK(words(life.on_output_read()) == Words{"write 2000"});  // nothing is said again
  AgentLifecycle ending = member();
  ending.on_finish(cause_of(report::Cause::Kind::worker_failed), "");
  CHECK(words(ending.on_front_end_lost(at(0))).empty());
  CHECK(words(ending.on_workers(k_idle)) == Words{"end gathered 2000 in any case", "read"});
}

TEST_CASE(
    "where the others go on a host that loses the ddprun that started it leaves alone, unless it "
    "coordinates") {
  AgentLifecycle::Limits limits;
  limits.others_go_on = true;
  const bool coordinates = GENERATE(false, true);
  AgentLifecycle life("n1", std::nullopt, limits);
  life.note_told_all();
  life.note_joined();
  if (coordinates) life.note_coordinates();
  life.on_front_end_lost(at(0));
  const Words asked = words(life.on_verdict({SIGTERM, false, false}));
  CHECK(asked == Words{coordinates ? "request 15" : "stop 15 of job"});
  life.on_workers(k_idle);
  if (!coordinates) CHECK(life.exit_code() == 128 + SIGTERM);
}

TEST_CASE("a signal while output is written gives up what is not taken soon") {
  AgentLifecycle life = member();
  life.on_finish(cause_of(report::Cause::Kind::worker_failed), "");
  life.on_workers(k_idle);
  life.on_output_read();
  CHECK(words(life.on_stop_signal(SIGINT, SignalWay::own, false, true, at(0))) ==
        Words{"end gathered 2000 in any case", "write 2000"});
  CHECK(words(life.on_stop_signal(SIGINT, SignalWay::own, false, true, at(500))).empty());
  CHECK(words(life.on_output_written()) == Words{"leave 2000"});
  CHECK(words(life.on_stop_signal(SIGINT, SignalWay::own, false, true, at(900))) == Words{"give up"});
}

TEST_CASE("an agent that starts nothing says why itself only where the others cannot hear it") {
  AgentLifecycle told = agent(no_script());
  told.note_told_all();
  told.note_joined();
  CHECK(words(told.on_not_heard()).empty());
  report::Cause cause = cause_of(report::Cause::Kind::launcher_failed);
  cause.exit_code = 127;
  told.on_finish(cause, "");
  told.on_workers(k_idle);
  CHECK(told.exit_code() == 127);

  AgentLifecycle alone = agent(no_script());
  alone.note_told_all();
  CHECK(words(alone.on_not_heard()) == Words{"error: cannot start train.py on n1: no such file"});
  CHECK(words(alone.on_not_heard()).empty());
  CHECK(words(alone.on_lost("cannot join", "")) == Words{"output back", "stop 15 of job"});
  alone.on_workers(k_idle);
  CHECK(alone.exit_code() == 127);

  AgentLifecycle refused = agent(no_script());
  CHECK(words(refused.on_refused("full", "")) ==
        Words{"error: cannot start train.py on n1: no such file", "stop 15 of job"});
}

TEST_CASE("a refusal is said and ends the agent") {
  AgentLifecycle life = member();
  CHECK(words(life.on_refused("the job has started", "")) ==
        Words{"error: the job has started", "stop 15 of job"});
  life.on_workers(k_idle);
  CHECK(life.exit_code() == exit_code_of(cause_of(report::Cause::Kind::launcher_failed)));
}

TEST_CASE("an exception ends the job in order, and while leaving it ends the leaving") {
  AgentLifecycle life = member();
  CHECK(words(life.on_exception("out of memory")) == Words{"stop 15 of job"});
  CHECK(words(life.on_workers(k_idle)) == Words{"end gathered 5000", "read"});
  CHECK(words(life.on_output_read()) == Words{"error: out of memory", "write"});
  AgentLifecycle leaving = member();
  leaving.note_succeeded();
  leaving.on_finish(cause_of(report::Cause::Kind::success), "");
  leaving.on_workers(k_idle);
  CHECK(words(leaving.on_exception("bad descriptor")) == Words{"error: bad descriptor", "leave"});
  CHECK(leaving.exit_code() != 0);
}

TEST_CASE("lost output is no success, and no other failure either") {
  AgentLifecycle good = member();
  good.note_succeeded();
  good.on_finish(cause_of(report::Cause::Kind::success), "");
  good.on_workers(k_idle);
  good.note_loss();
  CHECK(good.exit_code() == 125);
  AgentLifecycle stopped = agent();
  stopped.on_stop_signal(SIGTERM, SignalWay::own, false, false, at(0));
  stopped.on_verdict({SIGTERM, true, false});
  stopped.note_told_all();
  stopped.on_workers(k_idle);
  stopped.note_loss();
  CHECK(stopped.exit_code() == 143);
}

TEST_CASE(
    "workers that SIGKILL does not end are told of once, while a stop waits, and not what a debugger holds") {
  AgentLifecycle life = member();
  const AgentLifecycle::Workers stuck{false, false, true};
  const AgentLifecycle::Workers traced{false, false, true, true};
  CHECK(words(life.on_workers(stuck)).empty());
  life.on_stop(Attempt{2}, SIGTERM, false);
  CHECK(words(life.on_workers(traced)).empty());
  CHECK(words(life.on_workers(stuck)) == Words{"stuck 2"});
  CHECK(words(life.on_workers(stuck)).empty());
  CHECK(words(life.on_workers(k_idle)) == Words{"stopped 2"});
}

namespace {

// One of all events, with what it makes of the workers.
AgentLifecycle::Actions step(AgentLifecycle& life, std::mt19937& random, AgentLifecycle::Workers& workers,
                             TimePoint now) {
  static constexpr int k_signals[] = {SIGTERM, SIGINT, SIGHUP};
  const int signal = k_signals[random() % 3];
  const bool coin = random() % 2 == 0;
  workers = {random() % 2 == 0, random() % 4 != 0, random() % 16 == 0};
  switch (random() % 14) {
    case 0:
      return life.on_stop(Attempt{static_cast<int>(random() % 3)}, signal, coin);
    case 1:
      return life.on_finish(cause_of(static_cast<report::Cause::Kind>(random() % 6)), coin ? "report" : "");
    case 2:
      return life.on_lost("lost", "");
    case 3:
      return life.on_stop_signal(signal, coin ? SignalWay::own : SignalWay::front_end, coin,
                                 random() % 2 == 0, now);
    case 4:
      return life.on_verdict({signal, coin, random() % 2 == 0});
    case 5:
      return life.on_request(signal);
    case 6:
      return life.on_front_end_lost(now);
    case 7:
      return random() % 8 == 0 ? life.on_exception("exception") : AgentLifecycle::Actions{};
    case 8:
      return life.on_refused("refused", "");
    case 9:
      return life.on_not_heard();
    case 10:
      life.note_joined();
      return {};
    case 11:
      life.note_told_all();
      return {};
    case 12:
      life.note_succeeded();
      return {};
    default:
      if (life.accepts_start(workers)) life.note_start();
      return {};
  }
}

}  // namespace

TEST_CASE("whatever happens in any order, an agent leaves once, and never with 0 after a failure") {
  RANDOM_SEED(seed);
  std::mt19937 random(seed);
  int requests = 0;
  int successes = 0;
  for (int round = 0; round < test::rounds(1500); ++round) {
    CAPTURE(round);
    AgentLifecycle life = random() % 4 == 0 ? agent(no_script()) : agent();
    AgentLifecycle::Workers workers;
    int leaves = 0;
    int reads = 0;
    bool ended_well = false;
    bool ended = false;
    int now = 0;
    const auto take = [&](const AgentLifecycle::Actions& actions) {
      for (const LifeAction& action : actions) {
        if (std::holds_alternative<life::Leave>(action)) ++leaves;
        if (std::holds_alternative<life::ReadOutput>(action)) ++reads;
        const bool sends = std::holds_alternative<life::SendStopRequest>(action) ||
                           std::holds_alternative<life::SendStopped>(action) ||
                           std::holds_alternative<life::SendStuck>(action);
        if (sends) CHECK(life.linked());
        requests += std::holds_alternative<life::SendStopRequest>(action) ? 1 : 0;
      }
    };
    const auto follow = [&] {
      take(life.on_workers(workers));
      if (!ended && life.ending()) {
        ended = true;
        ended_well = life.linked();
      }
    };
    for (int i = 0; i < 20; ++i) {
      now += static_cast<int>(random() % 200);
      take(step(life, random, workers, at(now)));
      follow();
    }
    take(life.on_lost("lost", ""));
    life.note_told_all();
    workers = k_idle;
    follow();
    REQUIRE(reads <= 1);
    take(life.on_output_read());
    take(life.on_output_written());
    CHECK(leaves == 1);
    CHECK(life.left());
    CHECK(life.ending());
    if (life.exit_code() == 0) CHECK(ended_well);
    successes += life.exit_code() == 0 ? 1 : 0;
  }
  CHECK(requests > 100);
  CHECK(successes > 10);
}

TEST_CASE("an agent that looks for another coordinator is nobody's last word, until it coordinates") {
  AgentLifecycle life = member();
  life.on_lost("lost the coordinator", "", /*may_rejoin=*/true);
  CHECK(words(life.on_workers(k_running)).empty());
  CHECK(words(life.on_workers(k_idle)) == Words{"rejoin"});

  AgentLifecycle signalled = life;
  signalled.on_stop_signal(SIGTERM, SignalWay::own, false, false, at(1));
  signalled.on_verdict({SIGTERM, true, false});
  CHECK(words(signalled.on_workers(k_idle)) == Words{"end gathered 2000 in any case", "read"});

  life.note_coordinates();
  life.note_joined();
  life.on_finish(cause_of(report::Cause::Kind::worker_failed), "");
  CHECK(words(life.on_workers(k_idle)).empty());
  life.note_told_all();
  CHECK(words(life.on_workers(k_idle)) == Words{"end gathered 5000", "read"});
}
