#include "status/module_answer.hpp"

#include "catch.hpp"
#include "status/native_stack.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

const std::string k_torch = "/v/lib/python3.11/site-packages/torch/distributed/";

Frame own(int line, const std::string& function) { return {"/home/a/train.py", line, function}; }
Frame torch_frame(const std::string& file, const std::string& function) {
  return {k_torch + file, 9, function};
}
Frame python_frame(const std::string& file, const std::string& function) {
  return {"/usr/lib/python3.11/" + file, 9, function};
}

RankView view_of(std::vector<Frame> stack) {
  RankView view;
  view.stack = std::move(stack);
  return view;
}

}  // namespace

TEST_CASE("a rank in a call of torch that no recorder shows waits for the others") {
  const struct {
    std::vector<Frame> stack;
    std::string place;
  } cases[] = {
      {{torch_frame("distributed_c10d.py", "_new_process_group_helper"),
        torch_frame("distributed_c10d.py", "init_process_group"), torch_frame("c10d_logger.py", "wrapper"),
        own(5, "main")},
       "waits in init_process_group at train.py:5 in main"},
      {{torch_frame("rendezvous.py", "_create_c10d_store"),
        torch_frame("rendezvous.py", "_env_rendezvous_handler"),
        torch_frame("distributed_c10d.py", "init_process_group"), own(5, "<module>")},
       "waits in init_process_group at train.py:5"},
      {{torch_frame("distributed_c10d.py", "new_group"), torch_frame("device_mesh.py", "init_device_mesh"),
        own(6, "main")},
       "waits in new_group at train.py:6 in main"},
      {{torch_frame("distributed_c10d.py", "monitored_barrier"), own(7, "main")},
       "waits in monitored_barrier at train.py:7 in main"},
  };
  for (const auto& each : cases) CHECK(describe_place(view_of(each.stack)) == each.place);
}

TEST_CASE("a rank in a function of its own that torch has called is not in that call") {
  const RankView view = view_of(
      {own(3, "__reduce__"), torch_frame("distributed_c10d.py", "all_gather_object"), own(5, "main")});
  CHECK(waiting_call(view).empty());
  CHECK(describe_place(view) == "is at train.py:3 in __reduce__");
}

TEST_CASE("a rank that asks a store for a key waits for the one that sets it") {
  RankView view;
  REQUIRE(
      add_module_answer(view, R"({"main_thread":7,"threads":[{"id":7,"name":"MainThread","store_call":"wait",
    "stack":[{"file":"/home/a/train.py","line":9,"function":"main"}]}]})"));
  CHECK(describe_place(view) == "waits in store.wait at train.py:9 in main");
}

TEST_CASE("a rank at the prompt of Python's debugger") {
  RankView view = view_of({python_frame("cmd.py", "cmdloop"), python_frame("pdb.py", "interaction"),
                           python_frame("bdb.py", "dispatch_line"), own(7, "step"), own(20, "<module>")});
  CHECK(describe_place(view) == "is at a (Pdb) prompt at train.py:7 in step");
  // python -m pdb train.py runs all of the script below it.
  view = view_of({own(7, "step"), python_frame("bdb.py", "run"), python_frame("pdb.py", "main")});
  CHECK_FALSE(at_prompt(view));
}

TEST_CASE("the main thread joins another: that one's stack is shown, and the main one's beside it") {
  RankView view;
  set_threads(view,
              {{"MainThread", {python_frame("threading.py", "join"), own(30, "main")}, true, 7, 8},
               {"Thread-1 (load)", {own(12, "load"), python_frame("threading.py", "run")}, false, 8, 0}});
  CHECK(view.thread == "Thread-1 (load)");
  CHECK(describe_place(view) == "is at train.py:12 in load of thread Thread-1 (load)");
  REQUIRE(view.others.size() == 1);
  CHECK(view.others[0] == Thread{"MainThread", {python_frame("threading.py", "join"), own(30, "main")}});
}

TEST_CASE("the main thread waits in Python for whatever thread is in a collective") {
  RankView view;
  view.collective = Collective{"all_reduce", "default_pg", 3, "", true, {}};
  const std::vector<Frame> reduces{torch_frame("distributed_c10d.py", "all_reduce"), own(12, "sync")};
  set_threads(view, {{"MainThread", {python_frame("queue.py", "get"), own(30, "main")}, true, 7, 0},
                     {"Thread-1", {own(2, "idle")}, false, 8, 0},
                     {"Thread-2", reduces, false, 9, 0}});
  CHECK(describe_place(view) == "waits in all_reduce #3 at train.py:12 in sync of thread Thread-2");
  set_threads(view, {{"MainThread", {own(30, "main")}, true, 7, 0}, {"Thread-2", reduces, false, 9, 0}});
  CHECK(view.thread.empty());
}

TEST_CASE("threads that join in a ring are followed for a while only") {
  RankView view;
  set_threads(view, {{"MainThread", {own(1, "a")}, true, 7, 8}, {"b", {own(2, "b")}, false, 8, 7}});
  CHECK(view.stack.size() == 1);
}

TEST_CASE("two threads that each hold a lock of the other: both stacks, without threads of libraries") {
  RankView view;
  set_threads(view, {{"tqdm", {{"/v/site-packages/tqdm/_monitor.py", 1, "run"}}, false, 9, 0},
                     {"Thread-1", {own(14, "second"), python_frame("threading.py", "run")}, false, 8, 0},
                     {"MainThread", {own(20, "first")}, true, 7, 0}});
  CHECK(view.stack == std::vector{own(20, "first")});
  CHECK(view.others == std::vector{Thread{"Thread-1", {own(14, "second")}}});
}

TEST_CASE("a dump of faulthandler has the other threads too") {
  RankView view;
  REQUIRE(add_stack_dump(
      view,
      "Thread 0x00007f01 [load] (most recent call first):\n  File \"/x/a.py\", line 3 in f\n"
      "Current thread 0x00007f02 (most recent call first):\n  File \"/x/b.py\", line 4 in g\n"));
  CHECK(view.others == std::vector{Thread{"0x00007f01", {{"/x/a.py", 3, "f"}}}});
}

TEST_CASE("who is in a group comes from the module, where its name is that of one group") {
  const std::string groups = R"({"threads":[],"groups":[{"name":"3","description":"mesh_tp","ranks":"0-1"},
    {"name":"4","description":"undefined","ranks":"1-2"},{"name":"5","description":"twice","ranks":"0"},
    {"name":"6","description":"twice","ranks":"1"},7]})";
  for (const auto& [group, ranks] : {std::pair("mesh_tp", "0-1"), {"4", "1-2"}, {"twice", ""}, {"7", ""}}) {
    RankView view;
    view.collective = Collective{"all_reduce", group, 1, "", true, {}};
    REQUIRE(add_module_answer(view, groups));
    CHECK(view.collective->members == ranks);
  }
}
