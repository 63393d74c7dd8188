#include "status/rank_history.hpp"

#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

std::string recorded(const std::string& name) { return test_data("flight_records/torch-2.13-gloo-" + name); }

constexpr const char* k_two_groups = R"({"entries":[
  {"record_id":4,"collective_seq_id":2,"profiling_name":"nccl:broadcast","retired":false,"process_group":["7","tp"]},
  {"record_id":3,"collective_seq_id":9,"profiling_name":"nccl:all_gather","state":"completed","process_group":["0","default_pg"]},
  {"record_id":5,"p2p_seq_id":1,"is_p2p":true,"profiling_name":"nccl:send","process_group":["0","default_pg"]}],
  "pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[0, 1, 2, 3]"},"7":{"name":"7","desc":"tp","ranks":"[1, 3]"}}})";

}  // namespace

TEST_CASE("the pickle and the JSON that torch writes of one moment are the same history") {
  for (int rank = 0; rank < 4; ++rank) {
    const auto pickle =
        parse_history(rank, recorded("missing/nccl_trace_rank_" + std::to_string(rank)), "", 0, 99);
    const auto json =
        parse_history(rank, recorded("missing-json/fr_" + std::to_string(rank) + ".json"), "", 0, 99);
    REQUIRE(pickle);
    CHECK(pickle == json);
    CHECK(pickle->calls.size() == (rank == 1 ? 3 : 4));
    CHECK(pickle->members == std::vector<GroupMembers>{{"0", "0-3"}});
  }
}

TEST_CASE("the calls of a ring are in their order, point-to-point operations apart, and the newest stay") {
  const auto history = parse_history(3, k_two_groups, "", 0, 99);
  REQUIRE(history);
  REQUIRE(history->calls.size() == 2);
  CHECK(history->calls[0].collective.operation == "all_gather");
  CHECK(history->calls[1].group == "7");
  CHECK(history->members == std::vector<GroupMembers>{{"0", "0-3"}, {"7", "1,3"}});
  const auto newest = parse_history(3, k_two_groups, "", 0, 1);
  REQUIRE(newest);
  CHECK(newest->calls.size() == 1);
  CHECK(newest->calls[0].collective.operation == "broadcast");
}

TEST_CASE("a rank is where its oldest pending collective is, with the members of that group") {
  const auto place = find_place(parse_history(3, k_two_groups, "", 0, 99).value());
  REQUIRE(place);
  CHECK(*place == Collective{"broadcast", "tp", 2, "", true, Milliseconds{0}, "1,3"});
  CHECK_FALSE(find_place(RankHistory{}));
}

TEST_CASE("where torch does not name the members of a group, ddprun's module does") {
  const std::string module =
      R"({"threads":[],"groups":[{"name":"2","description":"tp","ranks":"2-3"},{"name":"4","ranks":"x"},5]})";
  const auto history = parse_history(2, recorded("groups/nccl_trace_rank_2"), module, 0, 99);
  REQUIRE(history);
  CHECK(history->members == std::vector<GroupMembers>{{"2", "2-3"}});
}

TEST_CASE("what is no flight record has no history") {
  for (const char* text : {"", "{}", "[]", R"({"entries":[1]})", "\x80\x02N.", "\x80\x02}."})
    CHECK_FALSE(parse_history(0, text, "", 0, 99));
  CHECK(parse_history(0, R"({"entries":[],"pg_config":[1]})", "{", 0, 99) == RankHistory{});
}
