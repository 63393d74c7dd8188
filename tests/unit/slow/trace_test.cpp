#include "slow/trace.hpp"

#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun::slow;

namespace {

NodeTrace recorded(const char* name) {
  NodeTrace trace;
  add_flight_record(trace, 3, ddprun::test_data(std::string("flight_records/") + name));
  return trace;
}

}  // namespace

TEST_CASE("torch 2.13 with gloo: when each collective was entered") {
  const NodeTrace trace = recorded("torch-2.13-gloo-done.json");
  REQUIRE(trace.ranks.size() == 1);
  CHECK(trace.ranks[0].rank == 3);
  CHECK(trace.groups == std::vector<std::string>{"0"});
  const auto& entries = trace.ranks[0].entries;
  REQUIRE(entries.size() == 2);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    CHECK(entries[i].sequence == static_cast<int>(i) + 4);
    CHECK(entries[i].role == static_cast<int>(Role::meets));
    if (i > 0) CHECK(entries[i].at > entries[i - 1].at);
  }
}

TEST_CASE("a broadcast is none that all wait for, a message has a number of its own") {
  NodeTrace trace;
  add_flight_record(trace, 0, R"({"entries":[
    {"record_id":2,"collective_seq_id":8,"time_created_ns":2000000,"profiling_name":"gloo:broadcast","input_sizes":[[4]],"process_group":["0","default_pg"]},
    {"record_id":1,"p2p_seq_id":3,"collective_seq_id":7,"is_p2p":true,"time_created_ns":1000000,"profiling_name":"nccl:send 0->1","process_group":["5","pp"]},
    {"record_id":3,"collective_seq_id":9,"time_created_ns":3000000,"profiling_name":"nccl:_reduce_scatter_base","input_sizes":[[4]],"process_group":["0","default_pg"]},
    {"record_id":4,"collective_seq_id":10,"profiling_name":"nccl:_allgather_base"}, 7]})");
  CHECK(trace.groups == std::vector<std::string>{"5", "0"});
  REQUIRE(trace.ranks.size() == 1);
  const auto& entries = trace.ranks[0].entries;
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].role == static_cast<int>(Role::sends));
  CHECK(entries[0].sequence == 3);
  CHECK(entries[1].role == static_cast<int>(Role::other));
  CHECK(entries[2].role == static_cast<int>(Role::meets));
  CHECK(entries[2].at - entries[1].at == 1000);
}

TEST_CASE("what is no record adds no rank") {
  NodeTrace trace;
  for (const char* const text : {"", "7", "{}", R"({"entries":[]})", R"({"entries":[{"record_id":1}]})"})
    add_flight_record(trace, 0, text);
  CHECK(trace == NodeTrace{});
}

TEST_CASE("a trace is the same after it was sent") {
  NodeTrace trace = recorded("torch-2.13-gloo-done.json");
  trace.bound = 30;
  trace.step = 812'000;
  CAPTURE(render_trace(trace));
  CHECK(parse_trace(render_trace(trace)) == trace);
  shorten(trace, 1);
  REQUIRE(trace.ranks[0].entries.size() == 1);
  CHECK(trace.ranks[0].entries[0].sequence == 5);
  CHECK_FALSE(parse_trace("{}"));
  trace.connections = {{"10.0.0.2", 7, 1'000, 10, 500, 90, 1448}};
  trace.link = LinkUse{"10.0.0.2", 1'000, 10, 500, 30'000'000, true};
  CHECK(parse_trace(render_trace(trace)) == trace);
  trace.link->span = 0;  // a share of it cannot be told
  CHECK_FALSE(parse_trace(render_trace(trace)));
  CHECK_FALSE(parse_trace(  // an unknown group
      R"({"base":0,"bound":0,"step":0,"groups":[],"ranks":[{"rank":0,"entries":[[0,0,1,1,1]]}]})"));
}

TEST_CASE("a trace that is too long loses ranks") {
  NodeTrace trace{1, 0, 0, {"0"}, {}};
  for (int rank = 0; rank < 256; ++rank) {
    trace.ranks.push_back({rank, {}});
    for (int i = 0; i < 256; ++i)
      trace.ranks.back().entries.push_back({0, 0, 100'000 + i, 2'000'000'000, 1'000'000 + i});
  }
  const std::string text = render_trace(trace);
  CHECK(text.size() <= k_max_trace);
  CHECK(parse_trace(text)->ranks.size() == 64);
}

namespace {

// So many bytes arrived, in so many microseconds.
Connection connection(std::int64_t id, std::int64_t acked, std::int64_t busy, int round_trip = 1000) {
  return {"10.0.0.2", id, acked, 0, busy, round_trip, 1448};
}

}  // namespace

TEST_CASE("the busiest connection is that with the longest time since the look before") {
  const std::vector<Connection> before{connection(1, 50'000'000, 9'000'000), connection(2, 0, 0)};
  const std::vector<Connection> now{connection(1, 60'000'000, 9'200'000),
                                    connection(2, 30'000'000, 4'000'000),
                                    connection(3, 90'000'000, 5'000'000)};  // newer than the look before
  const auto busiest = find_busiest(before, now, 10'000'000);
  REQUIRE(busiest);
  CHECK(*busiest == LinkUse{"10.0.0.2", 30'000'000, 0, 4'000'000, 10'000'000, true});
  CHECK_FALSE(find_busiest({}, now, 10'000'000));
}

TEST_CASE(
    "what waits for answers to small messages fills no link, and what sends hardly anything is left out") {
  const std::vector<Connection> before{connection(1, 0, 0), connection(2, 0, 0)};
  const auto use = [&](Connection now) { return find_busiest(before, {now}, 10'000'000); };
  CHECK(use(connection(1, 10'000'000, 1'000'000))->filled);
  const Connection small = connection(1, 10'000'000, 1'000'000, 100);  // 1,000 bytes under way
  CHECK_FALSE(use(small)->filled);
  CHECK_FALSE(use(connection(1, 10'000'000, 0))->filled);
  CHECK_FALSE(use(connection(1, 300'000, 100'000, 50'000)));  // 30 kB a second
  CHECK_FALSE(use(connection(1, -5, 1'000'000)));             // another with its number
  Connection lossy = small;
  lossy.resent = 300'000;
  CHECK(use(lossy)->filled);
  lossy.id = 2;
  lossy.busy = 500'000;
  CHECK(find_busiest(before, {small, lossy}, 10'000'000)->resent == 300'000);  // the filled one comes first
}
