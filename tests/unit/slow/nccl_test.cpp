// Trainings on NCCL with timing on (TORCH_NCCL_ENABLE_TIMING=1), as flight records of a host that runs ahead
// of its GPU. Simulated and not run on a GPU: the entries are those of create_one_entry() in torch's
// test/distributed/flight_recorder/test_fr_analysis.py, with the times that torch's recorder adds to them.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "slow/waits.hpp"

using namespace ddprun::slow;

namespace {

constexpr double k_ms = 1000;  // microseconds
constexpr std::int64_t k_start = 1'796'000'000'000'000'000;

using Factor = std::function<double(int rank)>;  // of the time that a GPU works

Factor alike() {
  return [](int) { return 1.0; };
}
Factor slower(int slow, double factor) {
  return [=](int rank) { return rank == slow ? factor : 1.0; };
}

// Each rank has a host, which enters collectives, a GPU that works, and the GPU's stream of collectives.
class Gpus {
 public:
  explicit Gpus(int ranks, Factor factor, double jitter = 0.01, unsigned seed = 1)
      : ranks_(static_cast<std::size_t>(ranks)), factor_(std::move(factor)), jitter_(jitter), random_(seed) {}

  std::vector<int> all() const {
    std::vector<int> ranks;
    for (int rank = 0; std::cmp_less(rank, ranks_.size()); ++rank) ranks.push_back(rank);
    return ranks;
  }
  void host(int rank, double time) { at(rank).host += varied(time); }
  void gpu(int rank, double time) {
    Rank& each = at(rank);
    each.gpu = std::max(each.gpu, each.host) + varied(time) * factor_(rank);
  }
  // `awaited`: the GPUs go on only when it is complete.
  void meet(const std::vector<int>& ranks, const std::string& group, int size, bool awaited) {
    double end = 0;
    const int number = ++numbers_[group];
    std::map<int, double> begin;
    for (const int rank : ranks) {
      Rank& each = at(rank);
      each.host += 100;
      begin[rank] = std::max({each.host, each.gpu, each.stream});
      end = std::max(end, begin[rank] + k_ms);
    }
    for (const int rank : ranks) {
      Rank& each = at(rank);
      each.stream = end;
      if (awaited) each.gpu = end;
      each.entries.push_back({group, number, size, each.host, (end - begin[rank]) / k_ms});
    }
  }
  // Waits for the GPU on the host, as loss.item() does.
  void ask_loss() {
    for (Rank& each : ranks_) each.host = std::max({each.host, each.gpu, each.stream});
  }

  NodeTrace trace(bool timing) const {
    NodeTrace trace;
    for (int rank = 0; std::cmp_less(rank, ranks_.size()); ++rank)
      add_flight_record(trace, rank, record(ranks_[static_cast<std::size_t>(rank)].entries, timing));
    shorten(trace, k_most_entries);
    return trace;
  }

 private:
  struct Made {
    std::string group;
    int number, size;
    double created, took;
  };
  struct Rank {
    double host = 0, gpu = 0, stream = 0;
    std::vector<Made> entries{};
  };
  Rank& at(int rank) { return ranks_.at(static_cast<std::size_t>(rank)); }
  double varied(double time) {
    return std::max(std::normal_distribution<double>(time, time * jitter_)(random_), 0.0);
  }

  static std::string record(const std::vector<Made>& entries, bool timing) {
    std::string text;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Made& each = entries[i];
      const auto created = k_start + static_cast<std::int64_t>(each.created * 1000);
      text += fmt::format(
          R"({}{{"record_id":{},"process_group":["{}","undefined"],"collective_seq_id":{},"p2p_seq_id":0,)"
          R"("is_p2p":false,"profiling_name":"nccl:all_reduce","input_sizes":[[{}]],"input_dtypes":["Float"],)"
          R"("output_sizes":[[{}]],"output_dtypes":["Float"],"state":"completed","retired":true,"time_created_ns":{})",
          i == 0 ? "" : ",", i, each.group, each.number, each.size, each.size, created);
      // The watchdog looks ten times a second only.
      const std::int64_t seen = created / 100'000'000 * 100'000'000 + 200'000'000;
      text += fmt::format(R"(,"time_discovered_completed_ns":{},"time_discovered_started_ns":)", seen);
      text += timing ? fmt::format(R"({},"duration_ms":{:.4f}}})", seen, each.took) : "null}";
    }
    return R"({"version":"2.10","entries":[)" + text + "]}";
  }

  std::vector<Rank> ranks_;
  Factor factor_;
  double jitter_;
  std::map<std::string, int> numbers_{};
  std::mt19937 random_;
};

// Forward 60 ms, and buckets of gradients that overlap with a backward pass of 80 ms.
NodeTrace ddp(int ranks, int buckets, const Factor& factor, int late = -1, bool timing = true,
              double jitter = 0.01, unsigned seed = 1) {
  Gpus run(ranks, factor, jitter, seed);
  for (int step = 0; step < 600 / buckets; ++step) {
    for (const int rank : run.all()) {
      run.host(rank, rank == late ? 40 * k_ms : 5 * k_ms);
      run.gpu(rank, 60 * k_ms);
    }
    for (int bucket = 0; bucket < buckets; ++bucket) {
      for (const int rank : run.all()) run.gpu(rank, 80 * k_ms / buckets);
      run.meet(run.all(), "0", 1000 + bucket, bucket == buckets - 1);
    }
    run.ask_loss();
  }
  return run.trace(timing);
}

// Every layer's weights are gathered before it works.
NodeTrace layers(int ranks, const Factor& factor) {
  Gpus run(ranks, factor);
  for (int step = 0; step < 30; ++step) {
    for (int layer = 0; layer < 16; ++layer) {
      run.meet(run.all(), "0", 1000, true);
      for (const int rank : run.all()) run.gpu(rank, 5 * k_ms);
    }
    run.meet(run.all(), "0", 1, true);
    run.ask_loss();
  }
  return run.trace(true);
}

// Four tensor groups of four ranks, 0-3 and so on, and four data groups across them.
NodeTrace tensor_and_data(const Factor& factor) {
  Gpus run(16, factor);
  for (int step = 0; step < 40; ++step) {
    for (int layer = 0; layer < 8; ++layer) {
      for (const int rank : run.all()) run.gpu(rank, 5 * k_ms);
      for (int first = 0; first < 16; first += 4)
        run.meet({first, first + 1, first + 2, first + 3}, "tp" + std::to_string(first), 1000, true);
    }
    for (int first = 0; first < 4; ++first)
      run.meet({first, first + 4, first + 8, first + 12}, "dp" + std::to_string(first), 500, true);
    run.ask_loss();
  }
  return run.trace(true);
}

std::map<int, double> shares(const NodeTrace& trace) {
  const Waits waits = measure_waits({trace});
  std::map<int, double> shares;
  for (const auto& [rank, waited] : waits.of_rank) shares[rank] = waited / waits.span;
  return shares;
}

std::set<int> named(const NodeTrace& trace) {
  std::set<int> ranks;
  for (const auto& [rank, share] : shares(trace)) {
    if (share >= 0.1) ranks.insert(rank);
  }
  return ranks;
}

struct Case {
  const char* what;
  NodeTrace trace;
  std::set<int> slow;
};

}  // namespace

TEST_CASE("NCCL: the rank that is slow on its host, and the slow GPU, which waits least") {
  const std::vector<Case> cases{
      {"even DDP", ddp(4, 4, alike()), {}},
      {"even DDP with many buckets", ddp(4, 25, alike()), {}},
      {"even DDP whose times vary", ddp(4, 25, alike(), -1, true, 0.3), {}},
      {"DDP, a host that is late", ddp(4, 4, alike(), 2), {2}},
      {"DDP, a host that is late, without timing", ddp(4, 4, alike(), 2, false), {2}},
      {"DDP, a slow GPU", ddp(4, 4, slower(1, 1.3)), {1}},
      {"DDP, a slow GPU without timing", ddp(4, 4, slower(1, 1.3), -1, false), {}},
      {"DDP of two ranks, a slow GPU", ddp(2, 4, slower(1, 1.3)), {}},
      {"DDP with many buckets, a GPU slower by 3 %", ddp(4, 25, slower(1, 1.03)), {}},
      {"DDP with many buckets, a GPU slower by 7 %", ddp(4, 25, slower(1, 1.07)), {}},
      {"DDP with many buckets, a slow GPU", ddp(4, 25, slower(1, 1.4)), {1}},
      {"even layers", layers(4, alike()), {}},
      {"layers, a GPU slower by 5 %", layers(4, slower(3, 1.05)), {}},
      {"layers, a slow GPU", layers(4, slower(3, 1.3)), {3}},
      {"tensor and data groups, even", tensor_and_data(alike()), {}},
      {"tensor and data groups, a slow GPU and not its peers", tensor_and_data(slower(5, 1.4)), {5}},
  };
  for (const Case& each : cases) {
    CAPTURE(each.what, shares(each.trace));
    CHECK(named(each.trace) == each.slow);
  }
}

TEST_CASE("NCCL: an even training names no GPU, however its times vary") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    CHECK(named(ddp(4, seed % 2 == 0 ? 4 : 25, alike(), -1, true, 0.1, seed)).empty());
  }
}

TEST_CASE("NCCL: a GPU's share is that by which the step is longer, once for all groups") {
  const double groups = shares(tensor_and_data(slower(5, 1.4))).at(5);  // 16 of 65 ms
  CHECK(groups > 0.2);
  CHECK(groups < 0.3);
  const double overlapping = shares(ddp(4, 4, slower(1, 1.15))).at(1);  // 21 of 167 ms
  CHECK(overlapping > 0.1);
  CHECK(overlapping < 0.14);
}

TEST_CASE("NCCL: how long a collective took is read where it can be") {
  const auto took = [](const char* text) {
    NodeTrace trace;
    add_flight_record(
        trace, 0,
        fmt::format(R"({{"entries":[{{"time_created_ns":5000,"profiling_name":"nccl:all_reduce")"
                    R"({},"process_group":["0",""]}}]}})",
                    text));
    return trace.ranks.at(0).entries.at(0).took;
  };
  CHECK(took(R"(,"duration_ms":1.5)") == 1500);
  CHECK(took(R"(,"duration_ms":2)") == 2000);
  for (const char* const text : {"", R"(,"duration_ms":null)", R"(,"duration_ms":"2")",
                                 R"(,"duration_ms":-1.0)", R"(,"duration_ms":1e300)"})
    CHECK(took(text) == 0);
}
