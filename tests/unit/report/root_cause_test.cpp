#include "report/root_cause.hpp"

#include <algorithm>
#include <csignal>

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::report;

namespace {

ExitStatus exited(int code) { return {ExitStatus::Kind::exited, code, {}, false}; }
ExitStatus killed(int signal) { return {ExitStatus::Kind::signalled, signal, {}, false}; }

Failure failure(int rank, const ExitStatus& status, std::vector<std::string> lines, bool after_stop = false) {
  Failure result;
  result.rank = {rank};
  result.host = "n" + std::to_string(rank / 2);
  result.status = status;
  result.last_lines = std::move(lines);
  result.after_stop = after_stop;
  return result;
}

const std::vector<std::string> k_gloo = {
    "Traceback (most recent call last):",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:53908."};
const std::vector<std::string> k_nccl = {
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
    "prematurely."};
const std::vector<std::string> k_own = {"Traceback (most recent call last):", "ValueError: bad sample 17"};
const std::vector<std::string> k_interrupted = {"Traceback (most recent call last):", "KeyboardInterrupt"};

Failure raised(int rank) { return failure(rank, exited(1), k_own); }
Failure bereft(int rank, bool after_stop = false) { return failure(rank, exited(1), k_gloo, after_stop); }
Failure told(int rank) { return failure(rank, killed(SIGTERM), {}, true); }

}  // namespace

TEST_CASE("what a failure says about itself") {
  CHECK(evidence_of(raised(0)) == Evidence::own_end);
  CHECK(evidence_of(failure(0, exited(1), {})) == Evidence::own_end);
  CHECK(evidence_of(bereft(0)) == Evidence::peer_gone);
  CHECK(evidence_of(failure(0, killed(SIGABRT), k_nccl)) == Evidence::peer_gone);
  CHECK(evidence_of(told(0)) == Evidence::stopped);
  CHECK(evidence_of(failure(0, exited(1), k_interrupted, true)) == Evidence::stopped);
  CHECK(evidence_of(failure(0, exited(1), {}, true)) == Evidence::stopped);
  CHECK(evidence_of(bereft(0, true)) == Evidence::peer_gone);
}

TEST_CASE("ranks that had ended with success explain who misses a peer, or waited in vain") {
  Failure lost = bereft(0);
  lost.last_lines.insert(
      lost.last_lines.begin() + 1,
      {"  File \"/home/a/train.py\", line 13, in <module>",
       "  File \"/v/lib/python3.11/site-packages/torch/distributed/c10d_logger.py\", line 83, in wrapper",
       "  File \"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", line 3252, in "
       "all_reduce"});
  explain_by_early_ends(lost, {});
  CHECK(describe(lost) == "rank 0 on n0 exited with code 1");
  explain_by_early_ends(lost, {{1, "n0", Milliseconds{120}}});
  CHECK(describe(lost) ==
        "rank 0 on n0 exited with code 1: rank 1 on n0 had exited with code 0 0.1 s before, while rank 0 was "
        "in "
        "all_reduce");
  CHECK(lost.hint ==
        "all ranks must make the same collective calls; a rank with fewer batches ends early "
        "(drop_last=True, or "
        "torch.distributed.algorithms.Join)");
  lost.because.clear();
  lost.collective = "all_reduce #7 (10 float)";
  explain_by_early_ends(lost, {{1, "n0", Milliseconds{2000}}, {3, "n1", Milliseconds{950}}});
  CHECK(lost.because ==
        "ranks 1,3 had exited with code 0, the last one 0.9 s before, while rank 0 was in all_reduce #7 (10 "
        "float)");
  Failure waited =
      failure(2, killed(SIGABRT), {"Timed out waiting 1800000ms for recv operation to complete"});
  explain_by_early_ends(waited, {{1, "n0", Milliseconds{1800000}}});
  CHECK(waited.because == "rank 1 on n0 had exited with code 0 1800.0 s before");
  waited.because = "GPU 0000:41:00.0: Xid 79, it fell off the bus";
  explain_by_early_ends(waited, {{1, "n0", Milliseconds{1800000}}});
  CHECK(waited.because.starts_with("GPU "));
}

TEST_CASE("a failure of its own is not explained by ranks that had ended") {
  for (Failure own : {raised(0), failure(0, killed(SIGSEGV), k_gloo)}) {
    explain_by_early_ends(own, {{1, "n0", Milliseconds{120}}});
    CHECK(own.because.empty());
    CHECK(own.hint.empty());
  }
}

TEST_CASE("a crash or a kill from outside is a cause whatever was written before") {
  CHECK(evidence_of(failure(0, killed(SIGSEGV), k_gloo)) == Evidence::own_end);
  CHECK(evidence_of(failure(0, killed(SIGKILL), k_gloo)) == Evidence::own_end);
  CHECK(evidence_of(failure(0, killed(SIGSEGV), {}, true)) == Evidence::own_words);
  Failure memory = failure(0, killed(SIGKILL), {}, true);
  CHECK(evidence_of(memory) == Evidence::stopped);
  memory.out_of_memory = "the limit of 4.0 GiB of its cgroup was reached";
  CHECK(evidence_of(memory) == Evidence::own_words);
}

TEST_CASE("the one that raised is named in whatever order the failures are seen") {
  std::vector<Failure> seen = {bereft(0), bereft(1), raised(3), failure(5, killed(SIGABRT), k_nccl),
                               bereft(6, true)};
  std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  do {
    const RankedFailures ranked = rank_failures(seen, {2, 4, 7});
    CHECK(ranked.cause.rank == GlobalRank{3});
    CHECK(ranked.others.empty());
    CHECK(ranked.victims == std::vector<int>{0, 1, 2, 4, 5, 6, 7});
  } while (std::next_permutation(seen.begin(), seen.end(),
                                 [](const auto& a, const auto& b) { return a.rank < b.rank; }));
}

TEST_CASE("one that was still ending when the stop came is the cause where the others lost a peer") {
  const Failure ending = failure(3, killed(SIGTERM), k_own, true);
  CHECK(rank_failures({bereft(0), ending, bereft(2)}, {}).cause.rank == GlobalRank{3});
  // But not where something failed by itself: words after a stop may be of the stop.
  const RankedFailures ranked = rank_failures({raised(1), ending}, {});
  CHECK(ranked.cause.rank == GlobalRank{1});
  CHECK(ranked.victims == std::vector<int>{3});
}

TEST_CASE("where all lost a peer the first that was seen is the cause") {
  const RankedFailures ranked = rank_failures({bereft(2), bereft(0)}, {1, 3});
  CHECK(ranked.cause.rank == GlobalRank{2});
  CHECK(ranked.cause.alike == std::vector<int>{0});
  CHECK(ranked.victims == std::vector<int>{1, 3});
}

TEST_CASE("ranks that end in the same way are one failure; others are told beside it") {
  const auto no_module = [](int rank) {
    return failure(rank, exited(1), {"[rank" + std::to_string(rank) + "]: ModuleNotFoundError: 'torch'"});
  };
  const RankedFailures ranked = rank_failures({no_module(4), no_module(0), raised(9), no_module(12)}, {13});
  CHECK(ranked.cause.rank == GlobalRank{4});
  CHECK(ranked.cause.alike == std::vector<int>{0, 12});
  REQUIRE(ranked.others.size() == 1);
  CHECK(ranked.others[0].rank == GlobalRank{9});
  CHECK(ranked.victims == std::vector<int>{13});
}

TEST_CASE("one that failed alike and was stopped on its way out is no victim") {
  const RankedFailures ranked = rank_failures({raised(1), failure(3, exited(1), k_own, true)}, {});
  CHECK(ranked.cause.alike == std::vector<int>{3});
  CHECK(ranked.victims.empty());
}

TEST_CASE("folding keeps what earlier folding has found") {
  Failure first = raised(0);
  Failure second = raised(4);
  second.alike = {5, 6};
  const auto folded = fold_alike({first, second});
  REQUIRE(folded.size() == 1);
  CHECK(folded[0].alike == std::vector<int>{4, 5, 6});
}
