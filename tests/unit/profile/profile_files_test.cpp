#include "profile/rank_profile.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::profile;

namespace {

const status::Frame k_main{"/home/a/train.py", 10, "<module>"}, k_step{"/home/a/train.py", 44, "step"};

JobProfile two_ranks() {
  return {
      {{0,
        "n1",
        7,
        "",
        {k_main, k_step},
        {{"loader;1", false, {{-1, 1, 5}}}, {"MainThread", true, {{-1, 0, 0}, {0, 1, 900}, {-1, 1, 100}}}}},
       {1, "n2", 8, "", {k_step}, {{"MainThread", true, {{-1, 0, 50}}}}},
       {2, "n2", 9, "the interpreter does not answer"}}};
}

}  // namespace

TEST_CASE("the file for speedscope has a profile of each thread, main threads first, and each frame once") {
  const nlohmann::json json = read_json_text(render_speedscope(two_ranks(), "job 7"));
  CHECK(json["$schema"] == "https://www.speedscope.app/file-format-schema.json");
  CHECK(json["name"] == "job 7");
  const auto frames = nlohmann::json::parse(
      R"([{"name":"<module>","file":"/home/a/train.py","line":10},{"name":"step","file":"/home/a/train.py","line":44}])");
  CHECK(json["shared"]["frames"] == frames);
  REQUIRE(json["profiles"].size() == 3);
  CHECK(json["profiles"][0] ==
        nlohmann::json::parse(
            R"({"type":"sampled","name":"rank 0 on n1","unit":"microseconds","startValue":0,"endValue":1000,
                                  "samples":[[0,1],[1]],"weights":[900,100]})"));
  CHECK(json["profiles"][1]["name"] == "rank 1 on n2");
  CHECK(json["profiles"][1]["samples"] == nlohmann::json::parse("[[1]]"));
  CHECK(json["profiles"][2]["name"] == "rank 0 on n1, thread loader;1");
}

TEST_CASE("a collapsed stack is a line without the separators of its format") {
  CHECK(render_collapsed(two_ranks()) ==
        "rank 0 on n1;<module> (train.py:10);step (train.py:44) 900\n"
        "rank 0 on n1;step (train.py:44) 100\n"
        "rank 1 on n2;step (train.py:44) 50\n"
        "rank 0 on n1, thread loader,1;step (train.py:44) 5\n");
}
