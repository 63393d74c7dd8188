#include "status/verdict.hpp"

#include <algorithm>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::status;
using status::Collective;

namespace {

WorkerStatus rank_at(int rank, std::optional<Collective> collective, int line) {
  WorkerStatus worker;
  worker.rank = rank;
  worker.pid = 100 + rank;
  worker.view.answers = true;
  worker.view.collective = std::move(collective);
  worker.view.stack = {{"/home/a/train.py", line, "step"}};
  return worker;
}

Collective reduce(int sequence, bool pending) {
  return {"all_reduce", "default_pg", sequence, "10 float", pending, {}};
}

JobStatus job_of(std::vector<WorkerStatus> workers) {
  JobStatus job;
  job.program = "train.py";
  job.host = "n1";
  job.workers = static_cast<int>(workers.size());
  job.nodes = 1;
  job.here = {{"n1", {}, std::move(workers)}};
  return job;
}

std::string places(const JobStatus& job) { return make_verdict(job, "why")->places; }

}  // namespace

TEST_CASE("one rank elsewhere: it is named, and the others in one line") {
  const auto verdict = make_verdict(job_of({rank_at(0, reduce(6, true), 44), rank_at(1, reduce(5, false), 8),
                                            rank_at(2, reduce(6, true), 44)}),
                                    "no rank has shown a sign of life for 20s");
  REQUIRE(verdict);
  CHECK(verdict->rank == 1);
  CHECK(verdict->reason ==
        "it is at train.py:8 in step, last collective: all_reduce #5 (10 float), while ranks 0,2 wait in "
        "all_reduce #6 "
        "(10 float) at train.py:44 in step; no rank has shown a sign of life for 20s");
  CHECK(verdict->places ==
        "rank 1 on n1 is at train.py:8 in step, last collective: all_reduce #5 (10 float)\n"
        "ranks 0,2 wait in all_reduce #6 (10 float) at train.py:44 in step\n"
        "stack of rank 1, innermost call first:\n"
        "  /home/a/train.py:8 in step\n");
}

TEST_CASE(
    "the order of blame: an exception, a script that is over, an ended rank, elsewhere, another collective, "
    "behind") {
  WorkerStatus raised = rank_at(5, reduce(6, true), 3);
  raised.view.raised = "ValueError: bad (train.py:3)";
  WorkerStatus ended = rank_at(4, {}, 1);
  ended.pid = 0;
  ended.exit_code = 0;
  WorkerStatus ending = rank_at(3, reduce(5, false), 1);
  ending.view.ending = true;
  WorkerStatus mismatched = rank_at(2, reduce(6, true), 60);
  mismatched.view.collective->operation = "broadcast";
  const WorkerStatus behind = rank_at(1, reduce(5, true), 44);
  std::vector<WorkerStatus> all;
  for (int rank = 10; rank < 14; ++rank) all.push_back(rank_at(rank, reduce(6, true), 44));
  std::vector<int> blamed;
  std::string hints;
  for (const WorkerStatus& each : {behind, mismatched, rank_at(0, {}, 9), ended, ending, raised}) {
    all.push_back(each);
    const auto verdict = make_verdict(job_of(all), "why");
    blamed.push_back(verdict->rank);
    hints += verdict->hint + "\n";
  }
  CHECK(blamed == std::vector<int>{1, 2, 0, 10, 3, 5});
  CHECK(hints.find("same order") != std::string::npos);
  CHECK(hints.find("destroy_process_group") != std::string::npos);
}

TEST_CASE("a script that is over while a thread of it runs is told to end that thread") {
  WorkerStatus ending = rank_at(3, {}, 1);
  ending.view.ending = true;
  ending.view.stack = {{"/usr/lib/python3.11/threading.py", 1583, "_shutdown"}};
  const auto verdict = make_verdict(job_of({ending}), "why");
  CHECK(verdict->hint ==
        "Python waits for a thread of the script that has not ended (--stacks shows it): start it with "
        "daemon=True, or end it and join() it at the end of the script");
  ending.view.stack = {{"/home/a/train.py", 3, "serve"}};
  ending.view.thread = "Thread-1";  // shown instead of the main one, which waits for it
  CHECK(make_verdict(job_of({ending}), "why")->hint == verdict->hint);
}

TEST_CASE("sizes that differ are a mismatch too") {
  WorkerStatus other = rank_at(1, reduce(6, true), 44);
  other.view.collective->sizes = "12 float";
  const auto verdict =
      make_verdict(job_of({rank_at(0, reduce(6, true), 44), other, rank_at(2, reduce(6, true), 44)}), "why");
  CHECK(verdict->rank == 1);
  CHECK(verdict->hint.find("same sizes") != std::string::npos);
}

TEST_CASE("all wait in the same place: no rank is missing") {
  const auto verdict =
      make_verdict(job_of({rank_at(0, reduce(6, true), 44), rank_at(1, reduce(6, true), 44)}), "why");
  CHECK(verdict->hint.find("no rank is missing") == 0);
  CHECK(verdict->reason == "ranks 0-1 wait in all_reduce #6 (10 float) at train.py:44 in step; why");
}

TEST_CASE("NCCL's RAS tells who is behind where torch's server does not answer") {
  std::vector<WorkerStatus> ranks{rank_at(0, std::nullopt, 44), rank_at(1, std::nullopt, 8),
                                  rank_at(2, std::nullopt, 44)};
  for (WorkerStatus& rank : ranks) rank.view.nccl = {1842, 0};
  ranks[1].view.nccl = {1841, 1};
  const auto verdict = make_verdict(job_of(ranks), "why");
  CHECK(verdict->rank == 1);
  CHECK(verdict->reason ==
        "it is at train.py:8 in step, 1841 NCCL collectives started, 1 fewer than another rank, while ranks "
        "0,2 are at "
        "train.py:44 in step, 1842 NCCL collectives started; why");
  ranks[1].view.nccl = {1842, 0};
  CHECK(make_verdict(job_of(ranks), "why")->hint.find("no rank is missing") == 0);
}

TEST_CASE("a stopped rank is told how it goes on, and hosts without an answer are named") {
  WorkerStatus stopped = rank_at(1, reduce(6, true), 44);
  stopped.view.stack.clear();
  stopped.view.process = "stopped by a signal (state T)";
  JobStatus job = job_of({rank_at(0, reduce(6, true), 44), stopped});
  job.silent = {"n2"};
  CHECK(make_verdict(job, "why")->hint == "kill -CONT 101 on n1 continues it");
  CHECK(make_verdict(job, "why")->hint_after ==
        "a signal had stopped it (SIGSTOP or SIGTSTP, from kill, a debugger or the scheduler)");
  CHECK(places(job).find("no answer from n2\n") != std::string::npos);
  CHECK_FALSE(make_verdict(job_of({}), "why"));
}

TEST_CASE("a rank has exited and others run on: who, and where") {
  WorkerStatus ended = rank_at(3, {}, 1);
  ended.pid = 0;
  const auto notice =
      describe_early_exit(job_of({rank_at(0, reduce(12, true), 44), rank_at(1, reduce(12, true), 44), ended}),
                          "rank 3 exited with code 0 60s ago");
  REQUIRE(notice);
  CHECK(notice->what ==
        "rank 3 exited with code 0 60s ago, and 2 ranks are still running: ranks 0-1 wait in all_reduce #12 "
        "(10 float) at "
        "train.py:44 in step");
  CHECK_FALSE(describe_early_exit(job_of({ended}), "why"));
}

TEST_CASE("--stacks prints each place once, with the threads of its first rank") {
  JobStatus job = job_of({rank_at(0, reduce(6, true), 44), rank_at(1, reduce(6, true), 44)});
  job.phase = "running";
  job.here[0].workers[0].view.threads = "thread MainThread (main):\n  /home/a/train.py:44 in step\n";
  CHECK(render_stacks(job) ==
        "train.py on n1 (ddprun 0): running, for 0 s\n"
        "2 workers on 1 node: train.py\n"
        "\nranks 0-1 wait in all_reduce #6 (10 float) at train.py:44 in step\n"
        "  threads of rank 0 on n1:\n"
        "  thread MainThread (main):\n"
        "    /home/a/train.py:44 in step\n");
}

TEST_CASE("a rank without a Python stack: its native one") {
  WorkerStatus silent = rank_at(1, {}, 44);
  silent.view.stack.clear();
  silent.view.unseen = "not inspected";
  silent.view.process = "sleeping in futex_wait";
  silent.view.calls = {{"pthread_cond_wait", "libc.so.6"}, {"all_reduce", "ring.cpp:31"}, {"main", ""}};
  CHECK(places(job_of({rank_at(0, reduce(6, true), 44), silent})) ==
        "rank 1 on n1 is in pthread_cond_wait, called by all_reduce, main (no Python stack: not inspected)\n"
        "rank 0 on n1 waits in all_reduce #6 (10 float) at train.py:44 in step\n"
        "native stack of rank 1, innermost call first:\n"
        "  pthread_cond_wait (libc.so.6)\n"
        "  all_reduce (ring.cpp:31)\n"
        "  main\n");
}

namespace {

const std::string k_c10d = "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py";

WorkerStatus rank_in(int rank, const std::string& call, int line) {
  WorkerStatus worker = rank_at(rank, {}, line);
  worker.view.stack.insert(worker.view.stack.begin(), {k_c10d, 9, call});
  return worker;
}

WorkerStatus rank_in_group(int rank, const std::string& group, const std::string& members, int line) {
  return rank_at(rank, Collective{"all_reduce", group, 1, "3 float", true, {}, members}, line);
}

}  // namespace

TEST_CASE("who waits in init_process_group is not to blame, whether the others are one or most") {
  auto verdict = make_verdict(job_of({rank_in(0, "init_process_group", 5), rank_at(1, {}, 3)}), "why");
  CHECK(verdict->reason ==
        "it is at train.py:3 in step, while rank 0 on n1 waits in init_process_group at train.py:5 in step; "
        "why");
  verdict = make_verdict(
      job_of({rank_in(0, "init_process_group", 5), rank_at(1, {}, 3), rank_at(2, {}, 3), rank_at(3, {}, 3)}),
      "why");
  CHECK(verdict->rank == 1);
  CHECK(verdict->reason ==
        "ranks 1-3 are at train.py:3 in step, while rank 0 on n1 waits in init_process_group at train.py:5 "
        "in step; "
        "why");
}

TEST_CASE("ranks that wait in different calls: the one in another call than most is named") {
  const auto verdict = make_verdict(
      job_of({rank_at(0, reduce(6, true), 44), rank_in(1, "new_group", 8), rank_at(2, reduce(6, true), 44)}),
      "why");
  CHECK(verdict->reason ==
        "it waits in new_group at train.py:8 in step, while ranks 0,2 wait in all_reduce #6 (10 float) at "
        "train.py:44 in step; why");
  CHECK(verdict->hint.find("in the same order") != std::string::npos);
  // Where most are in the call that is not recorded.
  CHECK(make_verdict(
            job_of({rank_in(0, "new_group", 8), rank_in(1, "new_group", 8), rank_at(2, reduce(6, true), 44)}),
            "why")
            ->rank == 2);
}

TEST_CASE("all wait in init_process_group, or for a key: the hint is another") {
  CHECK(
      make_verdict(job_of({rank_in(0, "init_process_group", 5), rank_in(1, "init_process_group", 5)}), "why")
          ->hint ==
      "every rank waits for more ranks: leave out world_size= and rank=, which ddprun sets in the "
      "environment, "
      "or the backend's network does not connect them");
  std::vector<WorkerStatus> ranks{rank_at(0, {}, 9), rank_at(1, {}, 9)};
  for (WorkerStatus& rank : ranks) rank.view.store_call = "wait";
  CHECK(make_verdict(job_of(ranks), "why")->hint ==
        "no rank sets the key that all wait for; a rank that waits for it cannot set it");
}

TEST_CASE("two groups used in different orders: each rank waits for the other") {
  const auto verdict =
      make_verdict(job_of({rank_in_group(0, "1", "0-1", 10), rank_in_group(1, "bee", "0-1", 12)}), "why");
  CHECK(verdict->reason ==
        "it waits in all_reduce #1 of group 1 (3 float) at train.py:10 in step, while rank 1 on n1 waits in "
        "all_reduce #1 of group bee (3 float) at train.py:12 in step; why");
  CHECK(verdict->hint ==
        "the ranks use these process groups in different orders, so that each waits for the other; all ranks "
        "must "
        "use the groups that they share in the same order");
}

TEST_CASE("ranks that wait for each other over three groups, or over the default one, are found") {
  const auto ring = make_verdict(job_of({rank_in_group(0, "a", "0-1", 1), rank_in_group(1, "b", "1-2", 2),
                                         rank_in_group(2, "c", "0,2", 3)}),
                                 "why");
  CHECK(ring->hint.find("different orders") != std::string::npos);
  const auto world =
      make_verdict(job_of({rank_at(0, reduce(6, true), 44), rank_in_group(1, "a", "0-1", 2)}), "why");
  CHECK(world->hint.find("different orders") != std::string::npos);
}

TEST_CASE(
    "groups without a rank in common, and groups that wait for a rank elsewhere, are in no wrong order") {
  const auto apart = make_verdict(job_of({rank_in_group(0, "a", "0,2", 1), rank_in_group(1, "b", "1,3", 1),
                                          rank_in_group(2, "a", "0,2", 1), rank_in_group(3, "b", "1,3", 1)}),
                                  "why");
  CHECK(apart->hint.find("no rank is missing") == 0);
  const auto chain = make_verdict(
      job_of({rank_in_group(0, "a", "0-1", 1), rank_in_group(1, "b", "1-2", 2), rank_at(2, {}, 3)}), "why");
  CHECK(chain->rank == 2);
  CHECK(chain->hint == "its stack shows what it is waiting for");
}

TEST_CASE("a rank at a prompt of the debugger is named first, with what to do") {
  WorkerStatus asked = rank_at(1, reduce(5, false), 7);
  asked.view.stack.insert(asked.view.stack.begin(), {"/usr/lib/python3.11/pdb.py", 9, "interaction"});
  const auto verdict =
      make_verdict(job_of({rank_at(0, {}, 3), asked, rank_at(2, reduce(6, true), 44)}), "why");
  CHECK(verdict->reason.starts_with("it is at a (Pdb) prompt at train.py:7 in step, last collective: "));
  CHECK(verdict->hint ==
        "it waits for input: answer it (c continues), or remove breakpoint() from the script; "
        "torch.distributed.breakpoint() stops one rank and lets the others wait");
}

TEST_CASE("the threads of the rank to blame are shown as far as the report has room") {
  WorkerStatus blamed = rank_at(1, {}, 20);
  blamed.view.thread = "Thread-1 (load)";
  blamed.view.others = {{"MainThread", {{"/home/a/train.py", 30, "main"}}},
                        {"Thread-2", std::vector<status::Frame>(40, {"/home/a/train.py", 14, "second"})},
                        {"Thread-3", {{"/home/a/train.py", 15, "third"}}}};
  const std::string text = places(job_of({rank_at(0, reduce(6, true), 44), blamed}));
  CHECK(text.find("stack of rank 1, thread Thread-1 (load), innermost call first:\n"
                  "  /home/a/train.py:20 in step\n"
                  "its thread MainThread:\n"
                  "  /home/a/train.py:30 in main\n"
                  "its thread Thread-2:\n"
                  "  /home/a/train.py:14 in second\n") != std::string::npos);
  CHECK(std::ranges::count(text, '\n') == 29);
}
