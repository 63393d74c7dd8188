#include "status/rank_history.hpp"

#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

constexpr std::size_t k_all = 2000;

// What torch 2.13 has dumped of these ranks.
std::vector<RankHistory> recorded(const std::string& job, const std::vector<int>& ranks = {0, 1, 2, 3}) {
  std::vector<RankHistory> histories;
  for (const int rank : ranks) {
    const std::string file = "nccl_trace_rank_" + std::to_string(rank);
    const auto history =
        parse_history(rank, test_data("flight_records/torch-2.13-gloo-" + job + "/" + file), "", 0, k_all);
    REQUIRE(history);
    histories.push_back(*history);
  }
  return histories;
}

using Lines = std::vector<std::string>;

RankHistory history_of(int rank, std::vector<Collective> calls) {
  RankHistory history{rank};
  for (Collective& call : calls) history.calls.push_back({"0", std::move(call)});
  return history;
}

Collective call(const std::string& operation, int number, const std::string& sizes, bool pending) {
  return {operation, "default_pg", number, sizes, pending};
}

}  // namespace

TEST_CASE("ranks that have made the same calls are even") {
  CHECK(check_groups(recorded("even")) == Lines{"default group (ranks 0-3): ranks 0-3 have completed #4"});
}

TEST_CASE("the rank that is not in the collective that the others wait in is missing") {
  CHECK(check_groups(recorded("missing")) == Lines{"default group (ranks 0-3): ranks 0,2-3 wait in "
                                                   "all_reduce #4 (10 float), missing: rank 1 (last #3)"});
}

TEST_CASE("a rank without a record is missing: torch names the members of the only group") {
  CHECK(check_groups(recorded("missing", {0, 2})) ==
        Lines{"default group (ranks 0-3): ranks 0,2 wait in all_reduce #4 (10 float), missing: ranks 1,3 (no "
              "record)"});
}

TEST_CASE("sizes that differ are found where the calls have failed, and without the rank that has crashed") {
  CHECK(
      check_groups(recorded("sizes", {0, 2, 3})) ==
      Lines{
          "default group (ranks 0-3): calls differ: all_reduce #4 (10 float) by ranks 0,3, all_reduce #4 (20 "
          "float) by rank 2; rank 3 waits in all_reduce #4 (10 float), missing: rank 1 (no record)"});
}

TEST_CASE("operations that differ") {
  CHECK(check_groups(recorded("operations")) ==
        Lines{"default group (ranks 0-3): calls differ: all_reduce #4 (10 float) by ranks 0-1,3, broadcast "
              "#4 (10 "
              "float) by rank 2; ranks 0-3 wait in all_reduce #4 (10 float)"});
}

TEST_CASE("each process group is judged for itself: two of one name are two") {
  CHECK(check_groups(recorded("groups")) ==
        Lines{"group tp (ranks 2-3): rank 2 waits in all_reduce #3 (10 float), missing: rank 3 (last #2)",
              "group dp (ranks 0,2): rank 0 waits in all_reduce #3 (10 float), missing: rank 2 (last #2)",
              "group dp (ranks 1,3): rank 1 waits in all_reduce #3 (10 float), missing: rank 3 (last #2)",
              "default group (ranks 0-3): ranks 0-3 have completed #3",
              "group tp (ranks 0-1): ranks 0-1 have completed #3"});
}

TEST_CASE("a rank that runs ahead of the others is missing nowhere, whatever its record has dropped") {
  const std::vector<RankHistory> histories{
      history_of(0, {call("all_reduce", 3, "1 float", true)}),
      history_of(1, {call("all_reduce", 8, "1 float", true), call("all_reduce", 9, "1 float", true)})};
  CHECK(
      check_groups(histories) ==
      Lines{"default group (ranks 0-1): rank 1 waits in all_reduce #8 (1 float), missing: rank 0 (last #3)"});
}

TEST_CASE("sizes may differ where each rank gives a part of its own, and not where all give the same") {
  for (const auto& [operation, fault] :
       {std::pair("all_to_all", false), std::pair("alltoall_base", false), std::pair("all_gather", false),
        std::pair("scatter", false), std::pair("_all_gather_base", true),
        std::pair("_reduce_scatter_base", true), std::pair("all_reduce", true)}) {
    const std::string line = check_groups({history_of(0, {call(operation, 1, "1 float", false)}),
                                           history_of(1, {call(operation, 1, "2 float", false)})})
                                 .front();
    CHECK((line.find("differ") != std::string::npos) == fault);
  }
}

TEST_CASE("NCCL, made in the form of torch's own tests: who is missing, whose sizes and whose types differ") {
  std::vector<RankHistory> histories;
  for (const int rank : {0, 1, 2, 3}) {
    const std::string file = "flight_records/torch-nccl-made/nccl_trace_rank_" + std::to_string(rank);
    histories.push_back(parse_history(rank, test_data(file), "", 0, k_all).value());
  }
  CHECK(
      check_groups(histories) ==
      Lines{"default group (ranks 0-3): ranks 0,2-3 wait in all_reduce #4 (4x4 bfloat16), missing: rank 1 "
            "(last #3)",
            "group mesh_dp (ranks 0,2): calls differ: all_reduce #1 (1024 bfloat16) by rank 0, all_reduce #1 "
            "(2048 bfloat16) by rank 2",
            "group mesh_dp (ranks 1,3): calls differ: all_reduce #1 (1024 bfloat16) by rank 1, all_reduce #1 "
            "(1024 float) by rank 3"});
}

TEST_CASE("nothing is said of ranks without calls") {
  CHECK(check_groups({}).empty());
  CHECK(check_groups({history_of(0, {}), history_of(1, {})}).empty());
}
