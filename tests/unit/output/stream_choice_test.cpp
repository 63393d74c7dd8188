#include "output/output_options.hpp"

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::output;

namespace {

std::string streams_error(const std::string& text) {
  return usage_error_of([&] { parse_stream_choice(text, "--tee"); });
}
std::string ranks_error(const std::string& text) {
  return usage_error_of([&] { parse_rank_list(text, "--local-ranks-filter"); });
}

}  // namespace

TEST_CASE("streams are chosen for all ranks or by rank") {
  CHECK(parse_stream_choice("3", "").all == 3);
  CHECK(parse_stream_choice("0:1,1:2", "").by_local_rank == std::map<int, int>{{0, 1}, {1, 2}});
  CHECK(parse_stream_choice("7:3", "").by_local_rank == std::map<int, int>{{7, 3}});
  CHECK(parse_stream_choice("12:3,0:0", "").by_local_rank == std::map<int, int>{{0, 0}, {12, 3}});
}

TEST_CASE("a choice without any stream is nothing") {
  CHECK(parse_stream_choice("0", "").nothing());
  CHECK(parse_stream_choice("0:0,1:0", "").nothing());
  CHECK_FALSE(parse_stream_choice("1", "").nothing());
  CHECK_FALSE(parse_stream_choice("0:0,12:1", "").nothing());
}

TEST_CASE("a malformed choice of streams shows the right form") {
  const std::string hint =
      " | give 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or RANK:CHOICE pairs as in 0:3,12:1";
  CHECK(streams_error("11") == "--tee is not a choice of streams: '11' (it is none of 0, 1, 2, 3)" + hint);
  CHECK(streams_error("0:1,") == "--tee is not a choice of streams: '0:1,' ('' is not RANK:CHOICE)" + hint);
  CHECK(streams_error("0:1,1") ==
        "--tee is not a choice of streams: '0:1,1' ('1' is not RANK:CHOICE)" + hint);
  CHECK(streams_error("1,0:1") ==
        "--tee is not a choice of streams: '1,0:1' ('1' is not RANK:CHOICE)" + hint);
  CHECK(streams_error("0:1,0:2") ==
        "--tee is not a choice of streams: '0:1,0:2' (rank 0 is listed twice)" + hint);
  for (const char* text : {"", "4", "0:4", "-1:1", "0:", ":1", "x", "0:1:2", "0:11"}) {
    CAPTURE(text);
    CHECK(streams_error(text).starts_with("--tee is not a choice of streams: "));
  }
}

TEST_CASE("a list of ranks is sorted and has each rank once") {
  CHECK(parse_rank_list("2, 0,2", "") == std::vector<int>{0, 2});
  for (const char* text : {"", "0,", "a", "-1", "0;1"}) {
    CAPTURE(text);
    CHECK(ranks_error(text) == "--local-ranks-filter is not a list of local ranks: '" + std::string(text) +
                                   "' | give numbers from 0, separated by commas, as in 0,1,2");
  }
}
TEST_CASE("a stream is chosen by its local rank, and ranks that are not named are not") {
  const StreamChoice some = parse_stream_choice("0:1,12:2", "");
  CHECK(some.has(LocalRank{0}, Stream::output));
  CHECK_FALSE(some.has(LocalRank{0}, Stream::error));
  CHECK(some.has(LocalRank{12}, Stream::error));
  CHECK_FALSE(some.has(LocalRank{1}, Stream::output));
  CHECK(parse_stream_choice("2", "").has(LocalRank{4000}, Stream::error));
}

TEST_CASE("ranks of the console are numbers and ranges") {
  const RankRanges ranks = parse_rank_ranges("0,8-15", "");
  CHECK(ranks.has(GlobalRank{0}));
  CHECK_FALSE(ranks.has(GlobalRank{7}));
  CHECK(ranks.has(GlobalRank{15}));
  CHECK_FALSE(ranks.has(GlobalRank{16}));
  CHECK(parse_rank_ranges("all", "").has(GlobalRank{3}));
  CHECK_FALSE(parse_rank_ranges("none", "").has(GlobalRank{0}));
  for (const char* text : {"", "0,", "5-3", "-1", "a", "1-2-3", "1-"}) {
    CHECK(usage_error_of([&] { parse_rank_ranges(text, "--ranks"); }) ==
          "--ranks is not a list of ranks: '" + std::string(text) +
              "' | give ranks and ranges separated by commas, as in 0,8-15, or all or none");
  }
}

TEST_CASE("line filters are between commas, and two commas are one") {
  CHECK(parse_line_filters("").empty());
  CHECK(parse_line_filters("apple,orange") == std::vector<std::string>{"apple", "orange"});
  CHECK(parse_line_filters("a,,b,c") == std::vector<std::string>{"a,b", "c"});
}
