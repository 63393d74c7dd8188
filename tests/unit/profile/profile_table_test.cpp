#include "profile/rank_profile.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::profile;

namespace {

// A rank whose main thread is in step(), and from there in torch, in decode() and in json's decoder, for
// these milliseconds.
RankProfile rank_of(int rank, int torch, int decode, int json) {
  const std::string lib = "/usr/lib/python3.11/";
  return {
      rank,
      rank < 4 ? "n1" : "n2",
      100 + rank,
      "",
      {{"/home/a/train.py", 44, "step"},
       {lib + "site-packages/torch/autograd.py", 7, "backward"},
       {"/home/a/data.py", 88, "decode"},
       {lib + "json/decoder.py", 337, "decode"}},
      {{"MainThread", true, {{-1, 0, 0}, {0, 1, 1000 * torch}, {0, 2, 1000 * decode}, {2, 3, 1000 * json}}},
       {"Thread-1 (loader)", false, {{-1, 2, 9'000'000}}}}};
}

}  // namespace

TEST_CASE("the rank that differs from the others is named first, then the places in the user's own files") {
  JobProfile job;
  for (int rank = 0; rank < 8; ++rank)
    job.ranks.push_back(rank == 5 ? rank_of(rank, 690, 210, 100) : rank_of(rank, 960, 30, 10));
  CHECK(render_table(job) ==
        "rank 5: 31 % at data.py:88 in decode; the others 4 %\n"
        "\n"
        " MEAN  LEAST   MOST  PLACE\n"
        " 93 %   69 %   96 %  train.py:44 in step\n"
        "  7 %    4 %   31 %  data.py:88 in decode\n");
}

TEST_CASE("ranks that differ alike are named together") {
  JobProfile job;
  for (int rank = 0; rank < 8; ++rank)
    job.ranks.push_back(rank == 2 || rank == 3 ? rank_of(rank, 500 - rank * 10, 500 + rank * 10, 0)
                                               : rank_of(rank, 1000, 0, 0));
  CHECK(render_table(job).starts_with(
      "ranks 2-3: 52 to 53 % at data.py:88 in decode; the others 0 %\n\n MEAN"));
}

TEST_CASE("of two ranks that are in different places both are named") {
  CHECK(render_table({{rank_of(0, 1000, 0, 0), rank_of(1, 0, 1000, 0)}})
            .starts_with("rank 1: 100 % at data.py:88 in decode; the others 0 %\n"
                         "rank 0: 100 % at train.py:44 in step; the others 0 %\n\n"));
}

TEST_CASE("even ranks are not told apart") {
  CHECK(render_table({{rank_of(0, 60, 40, 0), rank_of(1, 55, 45, 0), rank_of(2, 52, 48, 0)}})
            .starts_with(" MEAN"));
  CHECK(render_table({{rank_of(0, 60, 40, 0)}}).starts_with(" MEAN"));
}

TEST_CASE(
    "a function is named with the line that took most, and a stack without own files with its innermost "
    "call") {
  const RankProfile rank{
      0,
      "n1",
      9,
      "",
      {{"/home/a/t.py", 3, "f"}, {"/home/a/t.py", 5, "f"}, {"/usr/lib/python3.11/threading.py", 320, "wait"}},
      {{"", true, {{-1, 0, 10}, {-1, 1, 30}, {-1, 2, 60}}}}};
  CHECK(render_table({{rank}}) ==
        " MEAN  LEAST   MOST  PLACE\n"
        " 60 %   60 %   60 %  threading.py:320 in wait\n"
        " 40 %   40 %   40 %  t.py:5 in f\n");
}

TEST_CASE("ranks and hosts of which nothing is known are named") {
  JobProfile job{{rank_of(0, 10, 0, 0)}, {"n3", "n4"}};
  job.ranks.push_back({1, "n1\x1b", 11, "the interpreter does not answer"});
  job.ranks.push_back({2, "n1", 12, ""});
  const std::string unseen =
      "rank 1 on n1\\x1b (pid 11) is not in it: the interpreter does not answer\n"
      "rank 2 on n1 (pid 12) is not in it: no samples\n"
      "no answer from n3, n4\n";
  CHECK(render_table(job).ends_with("in step\n" + unseen));
  job.ranks.erase(job.ranks.begin());
  CHECK(render_table(job) == unseen);
}
