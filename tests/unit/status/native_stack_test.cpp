#include "status/native_stack.hpp"

#include <utility>

#include "base/json_fields.hpp"
#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

std::string recorded(const std::string& name) { return test_data("native_stacks/" + name); }

// Where the process is, as the tool's recorded answer shows.
std::string place(StackTool tool, const std::string& name, int pid) {
  RankView view;
  view.process = "sleeping in futex_wait";
  view.unseen = "not inspected";
  REQUIRE(add_tool_answer(view, tool, pid, recorded(name)));
  return describe_place(view);
}

const std::string k_unseen = " (no Python stack: not inspected)";

}  // namespace

TEST_CASE("eu-stack: the function of the C library that was called, and its callers") {
  const auto eu_stack = StackTool::eu_stack;
  CHECK(place(eu_stack, "eu-stack-0.188-c.txt", 8112) ==
        "is in pthread_cond_wait, called by wait_for_others, main" + k_unseen);
  CHECK(place(eu_stack, "eu-stack-0.188-cpp.txt", 8193) ==
        "is in pthread_cond_wait, called by comm::Ring::wait, std::_Function_handler::_M_invoke, "
        "comm::all_reduce" +
            k_unseen);
  CHECK(place(eu_stack, "eu-stack-0.188-python.txt", 8114) ==
        "is in clock_nanosleep, called by PyObject_Vectorcall, _PyEval_EvalFrameDefault, PyEval_EvalCode" +
            k_unseen);
  CHECK(place(eu_stack, "eu-stack-0.188-no-names.txt", 8116) == "is in nanosleep" + k_unseen);
}

TEST_CASE("gdb: the same calls, with and without lines") {
  const auto gdb = StackTool::gdb;
  CHECK(place(gdb, "gdb-13.1-c.txt", 8112) ==
        "is in pthread_cond_wait, called by wait_for_others, main" + k_unseen);
  CHECK(place(gdb, "gdb-13.1-debug.txt", 8113) ==
        "is in pthread_cond_wait, called by wait_for_others, main" + k_unseen);
  CHECK(place(gdb, "gdb-13.1-cpp.txt", 8193) ==
        "is in pthread_cond_wait, called by comm::Ring::wait, std::_Function_handler::_M_invoke, "
        "comm::all_reduce" +
            k_unseen);
  CHECK(place(gdb, "gdb-13.1-no-names.txt", 8116) == "is in nanosleep" + k_unseen);
  RankView view;
  REQUIRE(add_tool_answer(view, gdb, 8113, recorded("gdb-13.1-debug.txt")));
  CHECK(view.calls[5] == NativeCall{"wait_for_others", "wait.c:6"});
  CHECK(view.threads.find("thread 8118, native calls:\n") != std::string::npos);
  CHECK(view.threads.find("thread 8113 (main), native calls:\n") == 0);
}

TEST_CASE("py-spy: the Python stack of a process that shows none from inside") {
  CHECK(place(StackTool::py_spy, "py-spy-0.4.3-python.json", 8114) == "is at hold.py:5 in bad_branch");
  RankView view;
  REQUIRE(add_tool_answer(view, StackTool::py_spy, 8114, recorded("py-spy-0.4.3-python.json")));
  CHECK(view.threads.find("thread loader:\n  /tmp/run/hold.py:3 in load\n") != std::string::npos);
  RankView unnamed;
  REQUIRE(add_tool_answer(
      unnamed, StackTool::py_spy, 7,
      R"([{"os_thread_id":7,"thread_name":null,"frames":[{"filename":"/x/a.py","line":1,"name":"f"}]}])"));
  CHECK(unnamed.threads == "thread 7 (main):\n  /x/a.py:1 in f\n");
}

TEST_CASE("an answer that shows no call of the main thread adds nothing") {
  const auto adds = [](StackTool tool, std::string_view text, int pid = 8112) {
    RankView view;
    const bool added = add_tool_answer(view, tool, pid, text);
    CHECK(added == (view != RankView{}));
    return added;
  };
  CHECK_FALSE(adds(StackTool::py_spy, recorded("py-spy-0.4.3-no-python.txt")));
  CHECK_FALSE(adds(StackTool::py_spy, R"([{"os_thread_id":8112,"frames":[]},1,{"frames":[1]}])"));
  CHECK_FALSE(adds(StackTool::eu_stack, "eu-stack: dwfl_linux_proc_report pid 8112: Permission denied\n"));
  CHECK_FALSE(adds(StackTool::gdb, "ptrace: Operation not permitted.\n"));
  CHECK_FALSE(adds(StackTool::eu_stack, "TID 8112:\n#0  0x000056116dac94af - /usr/bin/sleep\n"));
  CHECK_FALSE(adds(StackTool::eu_stack, recorded("eu-stack-0.188-c.txt"), 8113));
  for (const StackTool tool : k_stack_tools) {
    for (const char* text :
         {"", "#", "# ", "TID 8112:", "TID x:\n#0", "Thread 1 (process 8112):\n#0 ", "[", "[[]]"})
      CHECK_FALSE(adds(tool, text));
  }
}

TEST_CASE("an answer that breaks off counts as far as it goes") {
  const std::string whole = recorded("gdb-13.1-c.txt");
  RankView view;
  REQUIRE(add_tool_answer(view, StackTool::gdb, 8112, whole.substr(0, whole.find("#6"))));
  CHECK(describe_place(view) == "is in pthread_cond_wait, called by wait_for_others");
}

TEST_CASE("an answer that breaks off anywhere does no harm") {
  const std::pair<StackTool, const char*> answers[] = {{StackTool::eu_stack, "eu-stack-0.188-cpp.txt"},
                                                       {StackTool::gdb, "gdb-13.1-cpp.txt"},
                                                       {StackTool::py_spy, "py-spy-0.4.3-python.json"}};
  for (const auto& [tool, name] : answers) {
    const std::string whole = recorded(name);
    for (std::size_t size = 0; size < whole.size(); size += 17) {
      RankView view;
      const bool added = add_tool_answer(view, tool, 8193, whole.substr(0, size));
      CHECK(added == !view.calls.empty());
    }
  }
}

TEST_CASE("a stack of any depth is cut") {
  std::string deep = "TID 7:\n";
  for (int i = 0; i < 1000; ++i) deep += "#0  0x00 f - /x/run\n";
  RankView view;
  REQUIRE(add_tool_answer(view, StackTool::eu_stack, 7, deep));
  CHECK(view.calls.size() == k_most_frames);
  CHECK(view.threads.size() <= k_most_threads_text);
}

TEST_CASE("a rank that runs, waits or ends: where its native calls are") {
  RankView view;
  view.calls = {{"step", "run"}, {"main", "run"}, {"__libc_start_main", "libc.so.6"}};
  view.process = "running";
  CHECK(describe_place(view) == "is running in step, called by main");
  view.process = "sleeping";
  view.unseen = "the interpreter does not answer";
  view.collective = Collective{"all_reduce", "default_pg", 6, "1000 float", true, {}};
  CHECK(describe_place(view) ==
        "waits in all_reduce #6 (1000 float), is in step, called by main (no Python stack: the interpreter "
        "does not answer)");
  view.collective.reset();
  view.ending = true;
  CHECK(describe_place(view) ==
        "has run its script to the end, and its process does not exit, is in step, called by main");
  view.calls = {{"_start", "run"}};
  CHECK(describe_place(view).ends_with("is in _start"));
  view.calls = {{"clone3", "libc.so.6"}, {"main", ""}};
  CHECK(describe_place(view).ends_with("is in clone3"));
}

TEST_CASE("operators keep their whole names") {
  RankView view;
  REQUIRE(add_tool_answer(view, StackTool::eu_stack, 7,
                          "TID 7:\n#0  0x00 main::{lambda(int)#1}::operator()(int) const - /x/run\n"
                          "#1  0x00 main::{lambda(int)#1}::_FUN(int) - /x/run\n"));
  CHECK(view.calls[0].function == "main::{lambda(int)#1}::operator()(int) const");
  CHECK(view.calls[1].function == "main::{lambda(int)#1}::_FUN");
}

TEST_CASE("native calls are the same when they are written and read again") {
  RankView view;
  view.calls = {{"pthread_cond_wait", "libc.so.6"}, {"main", ""}};
  const auto read = read_fields<RankView>(write_fields(view, describe_view), describe_view);
  REQUIRE(read);
  CHECK(*read == view);
}
