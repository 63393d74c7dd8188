#include "status/moment.hpp"

#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

constexpr std::int64_t k_time = 1'764'271'805'123;

std::vector<status::RankHistory> recorded(const std::string& job, const std::vector<int>& ranks) {
  std::vector<status::RankHistory> histories;
  for (const int rank : ranks) {
    const std::string file = "/nccl_trace_rank_" + std::to_string(rank);
    auto history = status::parse_history(rank, test_data("flight_records/torch-2.13-gloo-" + job + file), "",
                                         k_time * 1'000'000, k_dumped_calls);
    REQUIRE(history);
    histories.push_back(std::move(*history));
  }
  return histories;
}

// The dump of one agent with two ranks, of four in the job.
Moment dump_of(const std::string& host, int first, std::int64_t number, const std::string& job = "missing") {
  Moment moment{k_time + number, number, {}, recorded(job, {first, first + 1})};
  moment.job.job = "42";
  moment.job.launch_id = "launch";
  moment.job.phase = "running";
  moment.job.nodes = 2;
  moment.job.workers = 4;
  NodeStatus& node = moment.job.here.emplace_back();
  node.host = host;
  for (const status::RankHistory& history : moment.histories) {
    WorkerStatus& worker = node.workers.emplace_back();
    worker.rank = history.rank;
    worker.pid = 100 + history.rank;
    worker.view.collective = status::find_place(history);
    if (worker.view.collective) worker.view.collective->age = Milliseconds{480'000};
    worker.view.stack = {{"/x/train.py", history.rank == 1 ? 31 : 8, "step"}};
  }
  return moment;
}

std::string shown(const std::vector<Moment>& dumps) { return describe_moment(join_newest(dumps).value()); }

}  // namespace

TEST_CASE("a dump is what was written") {
  const Moment dump = dump_of("n1", 0, 7);
  CHECK(parse_moment(render_moment(dump)) == dump);
  for (const char* text : {"", "{}", "[]", R"({"time_ms":1})"}) CHECK_FALSE(parse_moment(text));
}

TEST_CASE("a dump has a limit: of ranks with many calls the newest stay") {
  Moment dump = dump_of("n1", 0, 7);
  status::RankHistory long_one{0, std::vector<status::Recorded>(k_dumped_calls)};
  for (std::size_t i = 0; i < k_dumped_calls; ++i) {
    long_one.calls[i].collective.sizes.assign(4000, 'x');
    long_one.calls[i].collective.sequence = static_cast<std::int64_t>(i);
  }
  dump.histories.assign(20, long_one);
  const std::string text = render_moment(dump);
  CHECK(text.size() <= k_max_moment);
  const auto read = parse_moment(text);
  REQUIRE(read);
  REQUIRE(!read->histories.front().calls.empty());
  CHECK(read->histories.front().calls.size() < k_dumped_calls);
  CHECK(read->histories.front().calls.back() == long_one.calls.back());
  CHECK(read->job == dump.job);
}

TEST_CASE("the dumps of all hosts name the rank that the others wait for, and where all were") {
  CHECK(shown({dump_of("n2", 2, 7), dump_of("n1", 0, 7), dump_of("n1", 0, 6, "even"),
               dump_of("n2", 2, 6, "even")}) ==
        "dump of 2025-11-27T19:30:05Z, ranks 0-3\n"
        "rank 1 on n1: it is at train.py:31 in step, last collective: all_reduce #3 (10 float), while ranks "
        "0,2-3 wait "
        "in all_reduce #4 (10 float) at train.py:8 in step; the longest wait is 8 min\n"
        "hint: its stack shows what it is waiting for\n"
        "default group (ranks 0-3): ranks 0,2-3 wait in all_reduce #4 (10 float), missing: rank 1 (last #3)\n"
        "\n"
        "job 42 on  (ddprun 0): running, for 0 s\n"
        "4 workers on 2 nodes: \n"
        "\n"
        "rank 1 on n1 is at train.py:31 in step, last collective: all_reduce #3 (10 float)\n"
        "\n"
        "ranks 0,2-3 wait in all_reduce #4 (10 float) at train.py:8 in step\n");
}

TEST_CASE("a host whose last dump is older is without an answer") {
  const std::string text = shown({dump_of("n1", 0, 7), dump_of("n1", 0, 6), dump_of("n2", 2, 6)});
  CHECK(text.starts_with("dump of 2025-11-27T19:30:05Z, ranks 0-1, without 2 of 4 ranks\n"));
  CHECK(text.find("\nno answer from n2\n") != std::string::npos);
  CHECK(text.find("missing: rank 1 (last #3), ranks 2-3 (no record)") != std::string::npos);
}

TEST_CASE("dumps of an earlier launch and of an earlier attempt are not mixed with the newest") {
  Moment other = dump_of("n2", 2, 7);
  other.job.launch_id = "earlier";
  CHECK(shown({dump_of("n1", 0, 7), other}) == shown({dump_of("n1", 0, 7)}));
  Moment attempt = dump_of("n1", 0, 8);
  attempt.job.attempt = 1;
  CHECK(shown({attempt, dump_of("n2", 2, 7)}) == shown({attempt}));
  CHECK_FALSE(join_newest({}));
}

TEST_CASE("a dump of ranks that compute names nobody") {
  CHECK(shown({dump_of("n1", 0, 7, "even"), dump_of("n2", 2, 7, "even")})
            .starts_with(
                "dump of 2025-11-27T19:30:05Z, ranks 0-3\nno rank waits for another one\ndefault group"));
}

TEST_CASE("torch's flight records alone name the rank that is missing") {
  CHECK(describe_moment(make_moment(recorded("missing", {0, 1, 2, 3}), k_time)) ==
        "flight records of 2025-11-27T19:30:05Z, ranks 0-3\n"
        "default group (ranks 0-3): ranks 0,2-3 wait in all_reduce #4 (10 float), missing: rank 1 (last #3)\n"
        "\n"
        "rank 1 shows no Python stack: a flight record has none, last collective: all_reduce #3 (10 float)\n"
        "\n"
        "ranks 0,2-3 wait in all_reduce #4 (10 float)\n");
}

TEST_CASE("torch's flight records name the rank that makes another call than the others") {
  CHECK(describe_moment(make_moment(recorded("operations", {0, 1, 2, 3}), k_time))
            .starts_with(
                "flight records of 2025-11-27T19:30:05Z, ranks 0-3\n"
                "rank 2: it waits in broadcast #4 (10 float), while ranks 0-1,3 wait in all_reduce #4 (10 "
                "float); torch's flight records show it\nhint: all ranks must call the same collectives"));
}

TEST_CASE("torch's flight records name the ranks whose sizes differ") {
  const std::string text = describe_moment(make_moment(recorded("sizes", {0, 2, 3}), k_time));
  CHECK(
      text.find("calls differ: all_reduce #4 (10 float) by ranks 0,3, all_reduce #4 (20 float) by rank 2") !=
      std::string::npos);
}
