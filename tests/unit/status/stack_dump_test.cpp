#include "status/native_stack.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::status;

TEST_CASE("of a crash the stack of its thread is shown") {
  const auto lines = crash_lines(
      "Fatal Python error: Aborted\n\nCurrent thread 0x00007f01 (most recent call first):\n  File "
      "\"/x/old.py\", line 1 in f\n"
      "Fatal Python error: Segmentation fault\n\nThread 0x00007f02 (most recent call first):\n"
      "  File \"/x/loader.py\", line 12 in fetch\n\nCurrent thread 0x00007f01 (most recent call first):\n"
      "  File \"/x/train.py\", line 8 in step\n  File \"/x/train.py\", line 20 in <module>\n\n"
      "Extension modules: numpy.core (total: 1)\n");
  CHECK(lines == std::vector<std::string>{"Fatal Python error: Segmentation fault",
                                          "most recent call first:", "  File \"/x/train.py\", line 8 in step",
                                          "  File \"/x/train.py\", line 20 in <module>"});
}

TEST_CASE("of a crash in a thread without Python the main thread is shown") {
  const auto lines = crash_lines(
      "Fatal Python error: Segmentation fault\n\nThread 0x00007f02 (most recent call first):\n"
      "  File \"/x/loader.py\", line 12 in fetch\n\nThread 0x00007f01 (most recent call first):\n"
      "  File \"/x/train.py\", line 8 in step\n");
  REQUIRE(lines.size() == 3);
  CHECK(lines[1] == "the main thread, most recent call first:");
  CHECK(lines[2] == "  File \"/x/train.py\", line 8 in step");
}

TEST_CASE("of a crash outside all Python, and of what is no dump, nothing is shown") {
  CHECK(crash_lines("").empty());
  CHECK(crash_lines("Segmentation fault\n").empty());
  CHECK(crash_lines("Fatal Python error: Aborted\n\nCurrent thread 0x0001 (most recent call first):\n  <no "
                    "Python frame>\n")
            .empty());
}
