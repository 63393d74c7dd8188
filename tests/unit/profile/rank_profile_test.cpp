#include "profile/rank_profile.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::profile;

namespace {

const std::string k_answer =
    R"({"samples":2,"seconds":0.02,"frames":[["/home/a/train.py",10,"<module>"],["/home/a/train.py",44,"step"]],)"
    R"("threads":[{"name":"MainThread","main":true,"calls":[-1,0,4000,0,1,16000]}]})";

RankProfile parse_answer(const std::string& answer) {
  return parse_job(render_rank(5, "n2", 77, "", answer)).ranks.at(0);
}

}  // namespace

TEST_CASE("a rank's profile is read from the answer of its module") {
  const RankProfile rank = parse_answer(k_answer);
  CHECK(rank.unseen.empty());
  CHECK(rank.rank == 5);
  CHECK(rank.host == "n2");
  CHECK(rank.pid == 77);
  CHECK(rank.frames ==
        std::vector<status::Frame>{{"/home/a/train.py", 10, "<module>"}, {"/home/a/train.py", 44, "step"}});
  CHECK(rank.threads == std::vector<ThreadProfile>{{"MainThread", true, {{-1, 0, 4000}, {0, 1, 16000}}}});
}

TEST_CASE("ranks are in order, and hosts that have not answered are silent") {
  const std::string lines =
      render_asked({"n1", "n2", "n3", "n4"}) + "\n" + render_rank(4, "n2", 9, "", k_answer) + "\nnoise\n" +
      render_rank(0, "n1", 8, "the interpreter does not answer", "") + "\n[1]\n" + render_answered("n1") +
      "\n" + render_answered("n2") + "\n" + render_answered("n4");
  const JobProfile job = parse_job(lines);
  REQUIRE(job.ranks.size() == 2);
  CHECK(job.ranks[0].rank == 0);
  CHECK(job.ranks[0].unseen == "the interpreter does not answer");
  CHECK(job.ranks[1].rank == 4);
  CHECK(job.silent == std::vector<std::string>{"n3"});
}

TEST_CASE("an answer that is no profile is named as such") {
  const auto with_calls = [](const std::string& calls) {
    return R"({"frames":[["a.py",1,"f"]],"threads":[{"name":"","main":true,"calls":[)" + calls + "]}]}";
  };
  CHECK(parse_answer(with_calls("-1,0,5")).unseen.empty());
  std::string deep;
  for (int i = -1; i < 300; ++i) deep += (i < 0 ? "" : ",") + std::to_string(i) + ",0,1";
  const std::string answers[] = {"",
                                 "no JSON",
                                 "[]",
                                 "{}",
                                 k_answer.substr(0, k_answer.size() / 2),
                                 R"({"frames":[],"threads":[7]})",
                                 R"({"frames":[["a.py",-1,"f"]],"threads":[]})",
                                 R"({"frames":[["a.py","f"]],"threads":[]})",
                                 with_calls("-1,0"),   // half a call
                                 with_calls("0,0,5"),  // its own caller
                                 with_calls("-2,0,5"),
                                 with_calls("-1,1,5"),
                                 with_calls("-1,0,-5"),
                                 with_calls("-1,0,1e300"),
                                 with_calls("-1,0,\"x\""),
                                 with_calls("-1,0,9000000000000"),
                                 with_calls(deep)};
  for (const std::string& answer : answers) {
    INFO(answer);
    const RankProfile rank = parse_answer(answer);
    CHECK(rank.unseen == "its answer is no profile");
    CHECK(rank.threads.empty());
  }
}

TEST_CASE("a torn or changed answer is a profile or none, and renders") {
  for (std::size_t i = 0; i < k_answer.size(); ++i) {
    for (const char byte : {'0', '9', '-', '"', '[', ']', ',', '\xff', '\n'}) {
      std::string changed = k_answer;
      changed[i] = byte;
      for (const std::string& answer : {changed, changed.substr(0, i)}) {
        const JobProfile job = parse_job(render_rank(0, "n1", 1, "", answer));
        REQUIRE(job.ranks.size() == 1);
        CHECK(!render_table(job).empty());
        CHECK(render_speedscope(job, "x").starts_with("{"));
        render_collapsed(job);
      }
      std::string line = render_rank(0, "n1", 1, "", k_answer);
      line[i % line.size()] = byte;
      render_table(parse_job(line));
    }
  }
}

TEST_CASE("the answers of all ranks together have a limit") {
  CHECK(answer_limit(0) == k_most_answer);
  CHECK(answer_limit(64) == k_most_answer);
  CHECK(answer_limit(1024) == 49152);
  CHECK(answer_limit(1 << 20) == k_least_answer);
}
