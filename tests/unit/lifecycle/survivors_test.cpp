#include "lifecycle/after_success.hpp"

#include "catch.hpp"

using namespace ddprun::lifecycle;
using namespace std::string_view_literals;

TEST_CASE("helpers that Python ends by itself are not left running, what a script has started is") {
  CHECK(is_left_running("aws\0s3\0cp\0last.pt\0"sv));
  CHECK(is_left_running("python3\0upload.py\0"sv));
  CHECK_FALSE(is_left_running(""));
  CHECK_FALSE(is_left_running("python3\0-c\0from multiprocessing.resource_tracker import main;main(3)\0"sv));
  CHECK_FALSE(is_left_running("python3\0-c\0from multiprocessing.forkserver import main; main(8)\0"sv));
  CHECK_FALSE(is_left_running("python3\0/x/torch/_inductor/compile_worker/__main__.py\0"sv));
}

TEST_CASE("the processes that are stopped with the workers are named, a few of many") {
  const auto one = describe_survivors({{"aws", 4711}}, "n1");
  CHECK(one.what == "stopping a process that a worker left running on n1: aws (pid 4711)");
  CHECK(one.hint ==
        "what workers start ends with them: wait for it at the end of the script, or start it after ddprun");
  CHECK(describe_survivors({{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}}, "n1").what ==
        "stopping 4 processes that workers left running on n1: a (pid 1), b (pid 2), c (pid 3) and 1 more");
}
