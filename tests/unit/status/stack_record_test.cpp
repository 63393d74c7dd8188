#include "status/moment.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

WorkerStatus rank_3() {
  WorkerStatus worker;
  worker.rank = 3;
  worker.pid = 4711;
  worker.view.stack = {{"/x/train.py", 8, "step"}};
  return worker;
}

constexpr std::int64_t k_time = 1'764'271'805'123;

}  // namespace

TEST_CASE("a record of a rank's stacks: when, who, where, and all that was collected") {
  status::Collected collected;
  collected.module = R"({"main_thread":7,"threads":[
    {"id":7,"name":"MainThread","stack":[{"file":"/x/train.py","line":8,"function":"step"}],
     "exception":{"type":"ValueError","message":"bad loss","file":"/x/train.py","line":31}},
    {"id":8,"name":"loader","stack":[{"file":"/x/q.py","line":1,"function":"get"}]}]})";
  collected.dump = "Current thread 0x01 (most recent call first):\n  File \"/x/train.py\", line 8 in step\n";
  collected.native = "PID 4711 - process\n\033[2J\n";
  collected.native_tool = "eu-stack";
  collected.record = R"({"entries":[]})";
  CHECK(render_stack_record("n1", rank_3(), collected, k_time, 2) ==
        "== 2025-11-27T19:30:05Z, attempt 2, rank 3 on n1, pid 4711 ==\n"
        "rank 3 is at train.py:8 in step\n"
        "-- Python threads --\n"
        "thread MainThread (main):\n"
        "  /x/train.py:8 in step\n"
        "  raised ValueError: bad loss (train.py:31)\n"
        "thread loader:\n"
        "  /x/q.py:1 in get\n"
        "-- Python threads (faulthandler) --\n"
        "Current thread 0x01 (most recent call first):\n"
        "  File \"/x/train.py\", line 8 in step\n"
        "-- eu-stack --\n"
        "PID 4711 - process\n"
        "\\x1b[2J\n"
        "-- flight record --\n"
        "{\"entries\":[]}\n"
        "\n");
}

TEST_CASE("a record is whole however deep the stack, and has no sections that are empty") {
  status::Collected collected;
  collected.module = R"({"main_thread":7,"threads":[{"id":7,"name":"MainThread","stack":[)";
  for (int i = 0; i < 300; ++i) collected.module += R"({"file":"/x/a.py","line":1,"function":"f"},)";
  collected.module += R"({"file":"/x/a.py","line":2,"function":"outermost"}]}]})";
  const std::string text = render_stack_record("n1", rank_3(), collected, k_time, 0);
  CHECK(text.find("  /x/a.py:2 in outermost\n") != std::string::npos);
  CHECK(text.find("-- flight record --") == std::string::npos);
}

TEST_CASE("a rank that has ended has no record") {
  WorkerStatus ended = rank_3();
  ended.pid = 0;
  CHECK(render_stack_record("n1", ended, {}, k_time, 0).empty());
}
