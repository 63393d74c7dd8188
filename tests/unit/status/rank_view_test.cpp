#include "status/rank_view.hpp"

#include "catch.hpp"
#include "status/module_answer.hpp"
#include "status/native_stack.hpp"

using namespace ddprun;
using namespace ddprun::status;

TEST_CASE("a dump of faulthandler: the stack of the thread that got the signal") {
  RankView view;
  REQUIRE(add_stack_dump(view,
                         "Thread 0x00007f01 (most recent call first):\n"
                         "  File \"/x/threading.py\", line 324 in wait\n"
                         "\n"
                         "Current thread 0x00007f02 (most recent call first):\n"
                         "  File \"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", "
                         "line 3252 in all_reduce\n"
                         "  File \"/home/a b/train \"q\".py\", line 44 in step\n"));
  REQUIRE(view.stack.size() == 2);
  CHECK(view.stack[1] == Frame{"/home/a b/train \"q\".py", 44, "step"});
  CHECK(own_frame(view)->line == 44);
  CHECK(describe_place(view) == "waits in all_reduce at train \"q\".py:44 in step");
  CHECK_FALSE(add_stack_dump(view, "no dump\n"));
  CHECK(view.stack.size() == 2);
}

TEST_CASE("the module's answer: stack, exception on its way, end of the script") {
  RankView view;
  REQUIRE(add_module_answer(view, R"({"main_thread":7,"finalizing":false,"script_ended":false,"threads":[
    {"id":8,"name":"loader","stack":[{"file":"/x/q.py","line":1,"function":"get"}],"exception":null},
    {"id":7,"name":"MainThread","stack":[{"file":"/x/train.py","line":50,"function":"<module>"}],
     "exception":{"type":"ValueError","message":"bad loss","file":"/x/train.py","line":31}}]})"));
  CHECK(view.raised == "ValueError: bad loss (train.py:31)");
  CHECK(describe_place(view) == "has raised ValueError: bad loss (train.py:31), is at train.py:50");
  CHECK(view.threads.find("thread loader:\n  /x/q.py:1 in get\n") != std::string::npos);
  RankView other;
  REQUIRE(add_module_answer(other, R"({"script_ended":true,"threads":[]})"));
  CHECK(describe_place(other) == "has run its script to the end, and its process does not exit");
}

TEST_CASE("an answer that is none, of any kind, adds nothing") {
  for (const char* text : {"", "{", "[]", "{}", R"({"threads":1})", R"({"threads":null})"}) {
    RankView view;
    CHECK_FALSE(add_module_answer(view, text));
    CHECK(view == RankView{});
  }
  RankView view;  // of the right form, with wrong values
  CHECK(add_module_answer(view, R"({"main_thread":"x","threads":[1,{"id":"y","stack":[1]},{"stack":{}}]})"));
  CHECK(view.stack.empty());
}

TEST_CASE("a stack of any depth and a text of any length are cut") {
  std::string deep = "Current thread 0x01 (most recent call first):\n";
  for (int i = 0; i < 1000; ++i) deep += "  File \"/x/a.py\", line 1 in f\n";
  RankView view;
  REQUIRE(add_stack_dump(view, deep));
  CHECK(view.stack.size() == k_most_frames);
  CHECK(view.threads.size() == k_most_threads_text);
}

TEST_CASE("where a rank waits, the collective and the user's own line are named") {
  RankView view;
  view.collective = Collective{"all_reduce", "default_pg", 6, "1000 float", true, {}};
  view.stack = {{"/v/lib/python3.11/site-packages/torch/x.py", 3, "all_reduce"},
                {"/home/a/train.py", 44, "step"}};
  CHECK(describe_place(view) == "waits in all_reduce #6 (1000 float) at train.py:44 in step");
  view.collective->pending = false;
  CHECK(describe_place(view) ==
        "is at train.py:44 in step (x.py:3 in all_reduce), last collective: all_reduce #6 (1000 float)");
  CHECK(describe_place(RankView{}) == "shows no stack and no collective");
}
