#include "slow/waits.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "slow/collectives.hpp"
#include "test_data.hpp"
#include "test_paths.hpp"
#include "training.hpp"

using namespace ddprun::slow;

namespace {

constexpr double k_ms = 1000;  // microseconds
constexpr int k_forward = 1, k_grads = 2, k_loss = 3, k_eval = 4;

using Extra = std::function<double(int rank, int step)>;  // microseconds

Extra none() {
  return [](int, int) { return 0.0; };
}
Extra late(int slow, double time) {
  return [=](int rank, int) { return rank == slow ? time : 0; };
}

// Forward 40 ms, four gradient buckets that overlap with a backward pass of 30 ms. `equal`: of one size.
Training ddp(int ranks, int steps, const Extra& extra, bool equal = false, double jitter = 0.02,
             unsigned seed = 1) {
  Training run(ranks, jitter, seed);
  for (int step = 0; step < steps; ++step) {
    for (const int rank : run.all()) {
      run.work(rank, 40 * k_ms);
      run.pause(rank, extra(rank, step));
    }
    for (int bucket = 0; bucket < 4; ++bucket) {
      for (const int rank : run.all()) run.work(rank, 7 * k_ms);
      run.meet(run.all(), "0", equal ? k_grads : 10 + bucket, bucket == 3);
    }
    for (const int rank : run.all()) run.work(rank, 5 * k_ms);
  }
  return run;
}

// Every layer gathers its weights, and waits for them.
Training fsdp(int ranks, int steps, const Extra& extra) {
  Training run(ranks);
  for (int step = 0; step < steps; ++step) {
    for (int layer = 0; layer < 16; ++layer) {
      for (const int rank : run.all()) {
        run.work(rank, 5 * k_ms);
        run.pause(rank, extra(rank, step) / 16);
      }
      run.meet(run.all(), "0", layer < 8 ? k_forward : k_grads);
    }
    run.meet(run.all(), "0", k_loss);
  }
  return run;
}

// Two tensor groups of two, 0-1 and 2-3; data groups 0-2 and 1-3.
Training tensor_and_data(int steps, const Extra& extra) {
  Training run(4);
  for (int step = 0; step < steps; ++step) {
    for (int layer = 0; layer < 8; ++layer) {
      for (const int rank : run.all()) {
        run.work(rank, 5 * k_ms);
        run.pause(rank, extra(rank, step) / 8);
      }
      run.meet({0, 1}, "tp0", k_forward);
      run.meet({2, 3}, "tp1", k_forward);
    }
    for (const int rank : run.all()) run.work(rank, 2 * k_ms);
    run.meet({0, 2}, "dp0", k_grads);
    run.meet({1, 3}, "dp1", k_grads);
  }
  return run;
}

// Three stages on two ranks each; the first stage's backward pass is over last. A norm is reduced over all.
Training pipeline(int steps, const Extra& extra) {
  Training run(6);
  for (int step = 0; step < steps; ++step) {
    for (const int rank : run.all()) {
      const int stage = rank / 2;
      const std::string chain = rank % 2 == 0 ? "pp0" : "pp1";
      run.work(rank, 20 * k_ms);
      run.enter(rank, chain, step * 2, 20, Role::sends);
      run.work(rank, (3 - stage) * 20 * k_ms);
      run.enter(rank, chain, step * 2 + 1, 20, Role::sends);
      run.pause(rank, extra(rank, step));
    }
    run.meet({0, 1}, "dp0", k_grads);
    run.meet({2, 3}, "dp1", k_grads);
    run.meet({4, 5}, "dp2", k_grads);
    run.meet(run.all(), "0", k_loss);
    for (const int rank : run.all()) run.work(rank, 5 * k_ms);
  }
  return run;
}

Training with_checkpoints() {
  Training run(4);
  for (int step = 0; step < 64; ++step) {
    for (const int rank : run.all()) run.work(rank, 70 * k_ms);
    if (step % 20 == 10) run.pause(0, 5000 * k_ms);
    run.meet(run.all(), "0", k_grads);
    if (step % 20 == 0) {
      for (const int rank : run.all()) run.work(rank, 10 * k_ms);
      run.meet(run.all(), "0", k_eval);
    }
  }
  return run;
}

// Each 250 steps three collectives more.
Training with_evaluation() {
  Training run(2);
  for (int step = 1; step <= 480; ++step) {
    for (int bucket = 0; bucket < 4; ++bucket) {
      for (const int rank : run.all()) run.work(rank, (bucket == 0 ? 47 : 9) * k_ms);
      run.meet(run.all(), "0", k_grads, bucket == 3);
    }
    for (int i = 0; i < 3 && step % 250 == 0; ++i) {
      for (const int rank : run.all()) run.work(rank, 2000 * k_ms);
      run.meet(run.all(), "0", k_eval);
    }
  }
  return run;
}

std::map<int, double> shares(const std::vector<NodeTrace>& traces) {
  const Waits waits = measure_waits(traces);
  std::map<int, double> shares;
  for (const auto& [rank, waited] : waits.of_rank) shares[rank] = waited / waits.span;
  return shares;
}

std::set<int> named(const std::vector<NodeTrace>& traces) {
  std::set<int> ranks;
  for (const auto& [rank, share] : shares(traces)) {
    if (share >= 0.1) ranks.insert(rank);
  }
  return ranks;
}

struct Case {
  const char* what;
  std::vector<NodeTrace> traces;
  std::set<int> slow;
};

}  // namespace

TEST_CASE("slow ranks that are named, and ranks that are not") {
  const auto in_turn = [](int rank, int step) { return rank == 1 + step % 2 ? 40 * k_ms : 0; };
  const auto any = [](int rank, int step) { return rank == step * 7919 % 8 ? 30 * k_ms : 0; };
  const auto third = [](int rank, int step) { return rank == 1 && step % 3 == 0 ? 150 * k_ms : 0; };
  const auto host = [](int rank, int) { return rank < 2 ? 30 * k_ms : 0; };
  const auto stage = [](int rank, int) { return rank == 3 ? 40 * k_ms : 0; };
  const std::vector<Case> cases{
      {"even DDP", ddp(4, 60, none()).traces(), {}},
      {"even DDP with equal buckets", ddp(4, 60, none(), true).traces(), {}},
      {"even DDP on a busy machine", ddp(4, 60, none(), false, 0.4).traces(), {}},
      {"even DDP with equal buckets on a busy machine", ddp(4, 60, none(), true, 0.4).traces(), {}},
      {"DDP, a rank that is 30 ms late", ddp(4, 60, late(2, 30 * k_ms)).traces(), {2}},
      {"the same with equal buckets", ddp(4, 60, late(2, 30 * k_ms), true).traces(), {2}},
      {"the same with equal buckets on a busy machine",
       ddp(4, 60, late(2, 50 * k_ms), true, 0.3).traces(),
       {2}},
      {"DDP, a rank that is 5 ms late, less than a bucket takes", ddp(4, 60, late(2, 5 * k_ms)).traces(), {}},
      {"the same with equal buckets", ddp(4, 60, late(2, 5 * k_ms), true).traces(), {}},
      {"two ranks, one of them late", ddp(2, 60, late(0, 30 * k_ms)).traces(), {0}},
      {"two ranks late in turn", ddp(8, 60, in_turn).traces(), {1, 2}},
      {"another rank late each step", ddp(8, 60, any).traces(), {}},
      {"two ranks of eight always late", ddp(8, 60, host).traces(), {0, 1}},
      {"every third step three times as long", ddp(4, 60, third).traces(), {1}},
      {"even FSDP", fsdp(4, 14, none()).traces(), {}},
      {"FSDP, a rank that is late in each layer", fsdp(4, 14, late(3, 20 * k_ms)).traces(), {3}},
      {"tensor and data groups, even", tensor_and_data(24, none()).traces(), {}},
      {"tensor and data groups: the slow rank and not its peer",
       tensor_and_data(24, late(1, 20 * k_ms)).traces(),
       {1}},
      {"an even pipeline", pipeline(50, none()).traces(), {}},
      {"a pipeline, a rank that is slower than the other of its stage", pipeline(50, stage).traces(), {3}},
      {"checkpoints of rank 0", with_checkpoints().traces(), {}},
  };
  for (const Case& each : cases) {
    CAPTURE(each.what, shares(each.traces));
    CHECK(named(each.traces) == each.slow);
  }
}

TEST_CASE("an even training names no rank, however its times vary") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    CHECK(named(ddp(8, 60, none(), seed % 2 == 0, 0.3, seed).traces()).empty());
  }
}

TEST_CASE("recorded trainings name the ranks that were late, and no others") {
  std::size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_TEST_DATA "/slow_ranks")) {
    if (!entry.is_directory()) continue;
    const std::string name = "slow_ranks/" + entry.path().filename().string();
    std::map<int, double> sums;
    int looks = 0;
    for (;; ++looks) {
      const std::string file = name + "/look-" + std::to_string(looks) + ".json";
      if (!std::filesystem::exists(DDPRUN_TEST_DATA "/" + file)) break;
      const auto trace = parse_trace(ddprun::test_data(file));
      REQUIRE(trace);
      for (const auto& [rank, share] : shares({*trace})) sums[rank] += share;
    }
    std::set<int> slow, found;
    std::istringstream lines(ddprun::test_data(name + "/slow"));
    for (int rank = 0; lines >> rank;) slow.insert(rank);
    for (const auto& [rank, sum] : sums) {
      if (sum >= 0.1 * looks) found.insert(rank);
    }
    CAPTURE(name, looks, sums);
    CHECK(found == slow);
    ++cases;
  }
  CHECK(cases == 13);
  const auto even = parse_trace(ddprun::test_data("slow_ranks/ddp-even/look-0.json"));
  CHECK(std::abs(find_step(even.value()).value_or(0) - 183'500) < 500);
}

TEST_CASE("the share is that by which the step is longer") {
  const auto found = shares(ddp(4, 60, late(2, 30 * k_ms)).traces());
  CHECK(found.at(2) > 0.25);  // 30 of 103 ms
  CHECK(found.at(2) < 0.33);
  CHECK(found.at(1) < 0.02);
}

TEST_CASE("a difference between hosts that the clocks' bounds explain is none") {
  const Training run = ddp(4, 60, late(2, 30 * k_ms));
  CHECK(named(run.traces(2, k_most_entries, 10'000)) == std::set{2});
  CHECK(named(run.traces(2, k_most_entries, 20'000)).empty());
  CHECK(named(run.traces(4, k_most_entries, 20'000)) == std::set{2});  // one host has one clock
}

TEST_CASE("nothing is told of a rank that is missing, or of too few collectives") {
  CHECK(shares({}).empty());
  CHECK(shares(ddp(4, 1, none()).traces()).empty());
  CHECK(shares(ddp(1, 60, none()).traces()).empty());
  auto traces = ddp(4, 60, none()).traces();
  traces[0].ranks.resize(1);
  CHECK(shares(traces).empty());
}

TEST_CASE("a step is what repeats: neither a layer nor the time between two evaluations") {
  const auto step = [](const Training& run) {
    return find_step(run.traces(run.ranks(), 2000).front()).value_or(0) / k_ms;
  };
  CHECK(std::abs(step(ddp(4, 60, none())) - 74) < 3);
  CHECK(std::abs(step(ddp(4, 60, none(), true)) - 74) < 3);
  CHECK(std::abs(step(fsdp(4, 14, none())) - 83) < 4);
  CHECK(std::abs(step(tensor_and_data(24, none())) - 43) < 3);
  CHECK(std::abs(step(with_evaluation()) - 74) < 4);
  CHECK(step(ddp(4, 2, none())) == 0);
  CHECK_FALSE(find_step({}));
}
