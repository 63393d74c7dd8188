#include "status/flight_record.hpp"

#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

std::string recorded(const std::string& name) { return test_data("flight_records/" + name); }

// A second after the last collective of the recorded run, in which rank 1 slept before the sixth one.
constexpr std::int64_t k_recorded = 1795775484637607506;

}  // namespace

TEST_CASE("torch 2.13 with gloo: the rank that waits, and the one that is waited for") {
  const auto waiting = parse_flight_record(recorded("torch-2.13-gloo-waiting.json"), k_recorded);
  REQUIRE(waiting);
  CHECK(*waiting == Collective{"all_reduce", "default_pg", 6, "1000 float", true, Milliseconds{1000}});
  CHECK(describe(*waiting) == "all_reduce #6 (1000 float)");
  const auto done = parse_flight_record(recorded("torch-2.13-gloo-done.json"), k_recorded);
  REQUIRE(done);
  CHECK(done->sequence == 5);
  CHECK_FALSE(done->pending);
}

TEST_CASE("of several pending collectives the oldest counts, of completed ones the newest") {
  const std::string text = R"({"entries":[
    {"record_id":7,"collective_seq_id":4,"profiling_name":"nccl:broadcast","retired":false,"process_group":["1","mesh_tp"]},
    {"record_id":6,"collective_seq_id":3,"profiling_name":"nccl:all_gather","state":"started","process_group":["1","mesh_tp"]},
    {"record_id":5,"collective_seq_id":2,"profiling_name":"nccl:all_gather","state":"completed"}]})";
  const auto found = parse_flight_record(text, 0);
  REQUIRE(found);
  CHECK(describe(*found) == "all_gather #3 of group mesh_tp");
  CHECK(found->age == Milliseconds{0});
}

TEST_CASE("a point-to-point operation is counted by its own number") {
  const auto found = parse_flight_record(
      R"({"entries":[{"record_id":0,"is_p2p":true,"p2p_seq_id":9,"collective_seq_id":1,"profiling_name":"gloo:recv"}]})",
      0);
  REQUIRE(found);
  CHECK(found->sequence == 9);
}

TEST_CASE("numbers that cannot be, and sizes of any length, leave a status that can be read") {
  std::string sizes = "1";
  for (int i = 0; i < 10'000; ++i) sizes += ",1";
  const auto found = parse_flight_record(
      R"({"entries":[{"record_id":0,"collective_seq_id":-7,"profiling_name":"x","input_sizes":[[)" + sizes +
          "]]}]}",
      0);
  REQUIRE(found);
  CHECK(found->sequence == 0);
  CHECK(found->sizes.size() <= 4096);
}

TEST_CASE("what is no flight record, or an empty one, is none") {
  for (const char* text :
       {"", "pong", "[]", "{", R"({"entries":[]})", R"({"entries":{}})", R"({"entries":[1]})"})
    CHECK_FALSE(parse_flight_record(text, 0));
}
