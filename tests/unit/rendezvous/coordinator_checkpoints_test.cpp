// --checkpoint-memory: what attempts start from, who is told what, and the flush before the end.
#include "../checkpoint/held_builder.hpp"
#include "catch.hpp"
#include "coordinator_play.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;
using namespace std::chrono_literals;
using checkpoint::Held;
using ddprun::test::checkpoints::held;
using ddprun::test::checkpoints::published;

namespace {

CoordinatorSettings with_checkpoints(int agents, int max_restarts = 0, const std::string& flush = "/shared") {
  CoordinatorSettings chosen = settings(agents, max_restarts);
  chosen.restarts.rule = sourced(options::RestartRule::always, "--restart-policy");
  chosen.checkpoints = CheckpointSettings{flush, {}, 600s, {}};
  return chosen;
}

CoordinatorSettings with_spare(int agents) {
  CoordinatorSettings chosen = with_checkpoints(agents);
  chosen.elastic = ElasticNodes{agents - 1, 1, 30s, options::Grow::now};
  return chosen;
}

// One worker on each agent.
Join join_with(int agent, int agents, const Held& kept = {}) {
  Join join = join_of(agent, agents, "10.0.0.1", 1);
  join.announcement.checkpoint_door = std::to_string(9000 + agent) + "/secret";
  join.announcement.addresses = {"10.0.0." + std::to_string(agent + 1)};
  join.checkpoints = kept;
  return join;
}

report::Failure failed(int rank, int attempt) {
  report::Failure failure = failure_of(rank, attempt);
  failure.host = "n" + std::to_string(rank + 1);
  return failure;
}

struct Job : Play {
  explicit Job(CoordinatorSettings chosen, const std::vector<Held>& kept = {}) : Play(std::move(chosen)) {
    for (int agent = 0; agent < agents; ++agent) {
      Join join = join_with(agent, agents, kept.empty() ? Held{} : kept[static_cast<std::size_t>(agent)]);
      join.announcement.max_restarts = restarts;
      say(agent, join);
    }
    store_ready(0);
  }
  void have(int agent, const Held& what) { say(agent, CheckpointsHeld{what}); }
  void stop(int agent, int attempt, const Held& what) {
    Stopped stopped{{attempt}, {}};
    stopped.checkpoints = what;
    say(agent, stopped);
  }
  // "90" for each agent that was told to start.
  std::map<int, std::string> starts() const {
    std::map<int, std::string> found;
    for (const auto& [agent, start] : sent<Start>())
      found[agent] = start.restore ? std::to_string(start.restore->step) : "anew";
    return found;
  }
  checkpoint::Order order(int agent) const {
    checkpoint::Order latest;
    for (const auto& [other, told] : sent<CheckpointOrder>()) {
      if (other == agent) latest = told.order;
    }
    return latest;
  }
  std::string notices() const {
    std::string all;
    for (const ShowNotice& each : Play::all<ShowNotice>()) all += each.notice.what + "\n";
    return all;
  }
  // Agent 0 publishes once all have written.
  void flush_done(std::int64_t step, int world, std::vector<Held> helds) {
    for (int agent = static_cast<int>(helds.size()) - 1; agent >= 0; --agent) {
      Held& each = helds[static_cast<std::size_t>(agent)];
      each.flushed = step;
      each.flushed_ranks = order(agent).flush_ranks;
      have(agent, each);
    }
    CHECK(order(0).publish == step);
    helds[0].published = step;
    helds[0].published_world = world;
    have(0, helds[0]);
  }
};

using Starts = std::map<int, std::string>;

}  // namespace

TEST_CASE("a job that was requeued starts from what its nodes have kept, each told of the others") {
  const Job job(with_checkpoints(2), {held("90:0 100:0"), held("90:1")});
  CHECK(job.starts() == Starts{{0, "90"}, {1, "90"}});
  const checkpoint::Restore restore = *job.sent<Start>()[0].second.restore;
  CHECK(restore.world == 2);
  CHECK(restore.own);
  CHECK_FALSE(restore.from_flush);
  REQUIRE(restore.holders.size() == 1);
  CHECK(restore.holders[0] == checkpoint::Holder{{"n2", "9001/secret", {"10.0.0.2"}}, {1}});
}

TEST_CASE("without --checkpoint-memory nothing is told, whatever the agents say") {
  Job job(settings(2), {held("90:0"), held("90:1")});
  CHECK(job.starts() == Starts{{0, "anew"}, {1, "anew"}});
  job.have(0, held("100:01"));
  CHECK(job.sent<CheckpointOrder>().empty());
}

TEST_CASE("a job starts from a published step that is newer than what the nodes have") {
  Held seen = held("60:1");
  seen.published = 80;
  seen.published_world = 4;
  const Job job(with_checkpoints(2), {held("60:0"), seen});
  CHECK(job.starts() == Starts{{0, "80"}, {1, "80"}});
  CHECK(job.sent<Start>()[0].second.restore->from_flush);
  CHECK(job.sent<Start>()[0].second.restore->world == 4);
}

TEST_CASE("parts in memory are not mixed with a step of the folder that may be of another history") {
  Job job(with_checkpoints(2, 3));
  job.have(0, held("90:0 100:0", 2, 0));
  job.have(1, held("90:1", 2, 0));
  job.say(1, AttemptFailed{{0}, failed(1, 0)});
  // Somebody has published a step 100, which may be of the attempt before.
  job.stop(0, 0, published(held("90:0 100:0", 2, 0), 100));
  job.stop(1, 0, held("90:1", 2, 0));
  job.store_ready(1);
  const auto restore_of = [&](int agent) {
    std::optional<checkpoint::Restore> latest;
    for (const auto& [other, start] : job.sent<Start>())
      if (other == agent) latest = start.restore;
    return latest;
  };
  checkpoint::Restore from_folder{100, 2};
  from_folder.from_flush = from_folder.only_flush = true;
  from_folder.own = false;
  CHECK(restore_of(0) == from_folder);
  CHECK(restore_of(1) == from_folder);
  // From then on what is in memory goes on from it.
  job.have(0, held("100:0", 2, 1));
  job.have(1, held("", 2, 1));
  job.say(1, AttemptFailed{{1}, failed(1, 1)});
  job.stop(0, 1, held("100:0", 2, 1));
  job.stop(1, 1, held("", 2, 1));
  job.store_ready(2);
  CHECK(restore_of(0)->from_flush);
  CHECK_FALSE(restore_of(0)->only_flush);
  CHECK(restore_of(0)->own);
  CHECK(restore_of(1)->holders.size() == 1);
}

TEST_CASE("what is left in memory of a step that was flushed from it is read there") {
  CoordinatorSettings chosen = with_checkpoints(2, 3);
  chosen.checkpoints->flush_every = 30min;
  Job job(std::move(chosen));
  job.have(0, held("90:0", 2, 0));
  job.have(1, held("90:1", 2, 0));
  job.pass(30min);
  job.flush_done(90, 2, {held("90:0", 2, 0), held("90:1", 2, 0)});
  job.say(1, AttemptFailed{{0}, failed(1, 0)});
  job.stop(0, 0, published(held("90:0", 2, 0), 90));
  job.stop(1, 0, held("", 2, 0));
  job.log.clear();
  job.store_ready(1);
  const checkpoint::Restore restore = *job.sent<Start>()[1].second.restore;
  CHECK(restore.from_flush);
  CHECK_FALSE(restore.only_flush);
  CHECK(restore.holders.size() == 1);
}

TEST_CASE("agents are told whom to copy and what to keep, once for each change") {
  Job job(with_checkpoints(3));
  CHECK(job.order(0).copy_from->host == "n2");
  CHECK(job.order(1).copy_from->host == "n3");
  CHECK(job.order(2).copy_from->host == "n1");
  CHECK(job.order(2).copy_from->door == "9000/secret");
  job.log.clear();
  for (int agent = 0; agent < 3; ++agent) job.have(agent, held("90:" + std::to_string(agent), 3, 0));
  CHECK(job.sent<CheckpointOrder>().size() == 3);
  CHECK(job.order(1).complete == std::vector<std::int64_t>{90});
  job.log.clear();
  job.have(1, held("90:1", 3, 0));
  job.pass(1h);
  CHECK(job.sent<CheckpointOrder>().empty());
}

TEST_CASE("after a failure all start from the newest step that all have saved") {
  Job job(with_checkpoints(2, 3));
  job.have(0, held("90:0", 2, 0));
  job.have(1, held("90:1", 2, 0));
  job.say(1, AttemptFailed{{0}, failed(1, 0)});
  // What was saved last is known with the answer to the stop.
  job.stop(0, 0, held("90:0 100:0", 2, 0));
  job.stop(1, 0, held("90:1 100:1", 2, 0));
  job.log.clear();
  job.store_ready(1);
  CHECK(job.starts() == Starts{{0, "100"}, {1, "100"}});
  CHECK(job.notices().empty());
}

TEST_CASE("a spare starts with its neighbours' copies of what the lost host had") {
  Job job(with_spare(3));
  CHECK(job.starts() == Starts{{0, "anew"}, {1, "anew"}});
  job.have(0, held("90:0+1", 2, 0));
  job.have(1, held("90:1+0", 2, 0));
  job.lose(1, "no answer");
  job.stop(0, 0, held("90:0+1 100:0", 2, 0));
  job.store_ready(1);
  CHECK(job.starts() == Starts{{0, "90"}, {1, "anew"}, {2, "90"}});
  const auto starts = job.sent<Start>();
  const auto spare = std::ranges::find(starts, 2, [](const auto& each) { return each.first; });
  REQUIRE(spare->second.restore->holders.size() == 1);
  CHECK(spare->second.restore->holders[0].ranks == std::vector<int>{0, 1});
  CHECK(job.notices() ==
        "lost n2 (rank 1): no answer; starting all workers again on 2 of 2 nodes\nn3 replaces n2\n");
  CHECK(job.order(0).copy_from->host == "n3");
  CHECK(job.order(2).copy_from->host == "n1");
}

TEST_CASE("a step that is lost with its copies is named") {
  Job job(with_spare(3));
  job.have(0, held("90:0", 2, 0));
  job.have(1, held("90:1", 2, 0));
  job.lose(1, "no answer");
  job.stop(0, 0, held("90:0", 2, 0));
  job.store_ready(1);
  CHECK(job.notices().ends_with("no node is left that has step 90 of rank 1; the workers start anew\n"));

  Job other(with_spare(3));
  Held seen = held("60:0+1 90:0", 2, 0);
  seen.published = 60;
  seen.published_world = 2;
  other.have(0, seen);
  other.have(1, held("90:1", 2, 0));
  other.lose(1, "no answer");
  other.stop(0, 0, seen);
  other.store_ready(1);
  CHECK(other.notices().ends_with(
      "no node is left that has step 90 of rank 1; the workers start from step 60 in /shared\n"));
}

TEST_CASE("a world that has shrunk starts from what the larger one has saved") {
  CoordinatorSettings chosen = with_checkpoints(3);
  chosen.elastic = ElasticNodes{1, 0, 30s, options::Grow::now};
  Job job(std::move(chosen));
  for (int agent = 0; agent < 3; ++agent) {
    const int next = (agent + 1) % 3;
    job.have(agent, held("90:" + std::to_string(agent) + "+" + std::to_string(next), 3, 0));
  }
  job.lose(2, "no answer");
  job.stop(0, 0, held("90:0+1", 3, 0));
  job.stop(1, 0, held("90:1+2", 3, 0));
  job.log.clear();
  job.store_ready(1);
  CHECK(job.starts() == Starts{{0, "90"}, {1, "90"}});
  CHECK(job.sent<Start>()[0].second.restore->world == 3);
  CHECK(job.sent<Start>()[0].second.assignment.world_size == 2);
}

TEST_CASE("a signal has the newest step flushed at once, and the end waits for it") {
  Job job(with_checkpoints(2));
  job.have(0, held("90:0", 2, 0));
  job.have(1, held("90:1", 2, 0));
  job.say(1, StopRequest{15, "n2"});
  CHECK(job.order(1).flush == 90);
  CHECK(job.order(1).flush_ranks == std::vector<int>{1});
  CHECK_FALSE(job.order(1).ending);
  job.stop(0, 0, held("90:0", 2, 0));
  job.stop(1, 0, held("90:1", 2, 0));
  CHECK(job.sent<Finish>().empty());
  CHECK(job.order(0).ending);
  CHECK(job.order(1).ending);
  job.pass(10s);
  job.flush_done(90, 2, {held("90:0", 2, 0), held("90:1", 2, 0)});
  CHECK(job.end().kind == report::Cause::Kind::stopped_by_signal);
  CHECK(job.sent<Finish>().size() == 2);
  CHECK(job.notices() == "writing step 90 to /shared before the job ends\n");
}

TEST_CASE("a step that became complete meanwhile is flushed too") {
  Job job(with_checkpoints(2));
  job.have(0, held("90:0", 2, 0));
  job.have(1, held("90:1", 2, 0));
  job.say(1, StopRequest{15, "n2"});
  job.stop(0, 0, held("90:0 100:0", 2, 0));
  job.stop(1, 0, held("90:1 100:1", 2, 0));
  job.flush_done(90, 2, {held("90:0 100:0", 2, 0), held("90:1 100:1", 2, 0)});
  CHECK(job.sent<Finish>().empty());
  CHECK(job.order(1).flush == 100);
  job.flush_done(100, 2, {held("90:0 100:0", 2, 0), held("90:1 100:1", 2, 0)});
  CHECK(job.end().kind == report::Cause::Kind::stopped_by_signal);
}

TEST_CASE("success, a failure and a lost node wait for the flush as well") {
  Job success(with_checkpoints(2));
  success.have(0, held("90:0", 2, 0));
  success.have(1, held("90:1", 2, 0));
  success.say(0, AttemptSucceeded{{0}});
  success.say(1, AttemptSucceeded{{0}});
  CHECK(success.sent<Finish>().empty());
  success.say(1, StopRequest{15, "n2"});  // changes nothing
  success.flush_done(90, 2, {held("90:0", 2, 0), held("90:1", 2, 0)});
  CHECK(success.end().kind == report::Cause::Kind::success);

  Job failure(with_checkpoints(2));
  failure.have(0, held("90:0", 2, 0));
  failure.have(1, held("90:1", 2, 0));
  failure.say(1, AttemptFailed{{0}, failed(1, 0)});
  CHECK(failure.order(0).flush == 90);
  failure.stop(0, 0, held("90:0", 2, 0));
  failure.stop(1, 0, held("90:1", 2, 0));
  failure.flush_done(90, 2, {held("90:0", 2, 0), held("90:1", 2, 0)});
  CHECK(failure.end().kind == report::Cause::Kind::worker_failed);

  Job loss(with_checkpoints(2));
  loss.have(0, held("90:0+1", 2, 0));
  loss.have(1, held("90:1", 2, 0));
  loss.lose(1, "no answer");
  loss.stop(0, 0, held("90:0+1", 2, 0));
  CHECK(loss.order(0).flush_ranks == std::vector<int>{0, 1});
  loss.flush_done(90, 2, {held("90:0+1", 2, 0)});
  CHECK(loss.end().kind == report::Cause::Kind::agent_lost);
}

TEST_CASE("an agent that is lost during the last flush is replaced by its neighbour") {
  Job job(with_checkpoints(2));
  job.have(0, held("90:0+1", 2, 0));
  job.have(1, held("90:1+0", 2, 0));
  job.say(1, AttemptFailed{{0}, failed(1, 0)});
  job.stop(0, 0, held("90:0+1", 2, 0));
  job.stop(1, 0, held("90:1+0", 2, 0));
  job.lose(1, "no answer");
  CHECK(job.sent<Finish>().empty());
  job.flush_done(90, 2, {held("90:0+1", 2, 0)});
  CHECK(job.end().kind == report::Cause::Kind::worker_failed);
}

TEST_CASE("nothing is waited for where the newest step is there already, or none can be flushed") {
  Held kept = held("90:0", 2, 0);
  kept.published = 90;
  kept.published_world = 2;
  Job job(with_checkpoints(2));
  job.have(0, kept);
  job.have(1, held("90:1", 2, 0));
  job.say(0, AttemptSucceeded{{0}});
  job.say(1, AttemptSucceeded{{0}});
  CHECK(job.end().kind == report::Cause::Kind::success);

  Job other(with_checkpoints(2, 0, ""));
  other.have(0, held("90:0", 2, 0));
  other.have(1, held("90:1", 2, 0));
  other.say(0, AttemptSucceeded{{0}});
  other.say(1, AttemptSucceeded{{0}});
  CHECK(other.end().kind == report::Cause::Kind::success);
}

TEST_CASE("the end waits ten minutes at most, and says which step could not be flushed") {
  Job job(with_checkpoints(2));
  job.have(0, held("90:0", 2, 0));
  job.have(1, held("90:1", 2, 0));
  job.say(0, AttemptSucceeded{{0}});
  job.say(1, AttemptSucceeded{{0}});
  Held wrote = held("90:0", 2, 0);
  wrote.flushed = 90;
  wrote.flushed_ranks = {0};
  job.have(0, wrote);
  job.pass(599s);
  CHECK(job.sent<Finish>().empty());
  job.pass(1s);
  CHECK(job.end().kind == report::Cause::Kind::success);
  CHECK(job.notices().ends_with(
      "\nstep 90 could not be written to /shared in time, not by n2; no checkpoint is there\n"));
}

TEST_CASE("the end does not wait for the flush once a person asks to stop again") {
  Job job(with_checkpoints(2));
  job.have(0, held("90:0", 2, 0));
  job.have(1, held("90:1", 2, 0));
  job.say(1, StopRequest{2, "n2"});
  job.say(1, StopRequest{2, "n2", false, {}, true});  // the workers are not stopped yet
  job.stop(0, 0, held("90:0", 2, 0));
  job.stop(1, 0, held("90:1", 2, 0));
  CHECK(job.sent<Finish>().empty());
  job.say(1, StopRequest{2, "n2", false, {}, true});
  CHECK(job.sent<Finish>().size() == 2);
  CHECK(job.end().kind == report::Cause::Kind::stopped_by_signal);
  CHECK(job.notices().find("step 90 could not be written to") != std::string::npos);
}

TEST_CASE("the end does not wait until the scheduler kills all") {
  CoordinatorSettings chosen = with_checkpoints(1);
  chosen.checkpoints->kill_after = 30s;
  Job job(std::move(chosen));
  job.have(0, held("90:0", 1, 0));
  job.say(0, StopRequest{15, "n1"});
  job.pass(5s);
  job.stop(0, 0, held("90:0", 1, 0));
  job.pass(22s);
  CHECK(job.sent<Finish>().empty());
  job.pass(1s);
  CHECK(job.sent<Finish>().size() == 1);
  CHECK(job.notices().find("\nstep 90 could not be written to /shared in time, not by n1;") !=
        std::string::npos);

  Job limit(with_checkpoints(1));
  limit.take(limit.coordinator.on_job_end(k_start + 40s, {}));
  limit.have(0, held("90:0", 1, 0));
  limit.say(0, AttemptSucceeded{{0}});
  limit.pass(39s);
  CHECK(limit.sent<Finish>().empty());
  limit.pass(1s);
  CHECK(limit.sent<Finish>().size() == 1);
}

TEST_CASE("the newest step is flushed while the job runs, and published by the coordinator's agent") {
  CoordinatorSettings chosen = with_checkpoints(2, 3);
  chosen.checkpoints->flush_every = 30min;
  Job job(std::move(chosen));
  job.have(0, held("90:0", 2, 0));
  job.have(1, held("90:1", 2, 0));
  CHECK_FALSE(job.order(0).flush);
  job.pass(30min);
  CHECK(job.order(0).flush == 90);
  job.flush_done(90, 2, {held("90:0", 2, 0), held("90:1", 2, 0)});
  CHECK_FALSE(job.order(0).flush);
  CHECK_FALSE(job.order(0).publish);
  CHECK_FALSE(job.order(1).ending);
}

TEST_CASE("an agent that takes over knows the checkpoints from what the others join with") {
  CoordinatorSettings chosen = with_checkpoints(3);
  chosen.own = {1};
  chosen.succession = true;
  chosen.launch_id = "launch";
  chosen.takeover = Takeover{"lost n1, the coordinator: no answer", 10s};
  chosen.elastic = ElasticNodes{2, 0, 30s, options::Grow::now};
  Play play(std::move(chosen));
  const auto survive = [&](int connection, int place, const Held& kept) {
    Join join = join_with(place, 3, kept);
    Roster roster;
    roster.rolls = {{1, {{0, 2}}}};
    roster.launch_id = "launch";
    roster.own = {place};
    roster.slot = place;
    roster.counts = true;
    roster.host = "n1";
    join.survivor = Survivor{roster, {0}};
    if (connection == 0) join.reached = "";
    play.say(connection, join);
  };
  survive(0, 1, held("80:1+2 90:1", 3, 0));
  survive(7, 2, held("80:2+0 90:2+0", 3, 0));
  play.pass(1min);
  play.store_ready(1);
  const auto starts = play.sent<Start>();
  REQUIRE(starts.size() == 2);
  CHECK(starts[0].second.restore->step == 90);
  CHECK(starts[1].second.restore->step == 90);
}
