#include "output/log_layout.hpp"

#include "catch.hpp"
#include "error_text.hpp"

using namespace ddprun;
using namespace ddprun::output;

TEST_CASE("torchrun's folders are by local rank") {
  CHECK(attempt_folder_name(LogLayout::torchrun, Attempt{1}) == "attempt_1");
  CHECK(log_file_name(LogLayout::torchrun, LocalRank{12}, GlobalRank{28}, Stream::output) == "12/stdout.log");
  CHECK(log_file_name(LogLayout::torchrun, LocalRank{0}, GlobalRank{16}, Stream::error) == "0/stderr.log");
  CHECK(filtered_file_name(Stream::error) == "filtered_stderr.log");
  CHECK(stack_record_name(LogLayout::torchrun, LocalRank{12}, GlobalRank{28}) == "12/stacks.txt");
}

TEST_CASE("the files of --logs are by global rank") {
  CHECK(attempt_folder_name(LogLayout::ranks, Attempt{1}) == "attempt-1");
  CHECK(log_file_name(LogLayout::ranks, LocalRank{1}, GlobalRank{5}, Stream::output) == "rank-00005.out");
  CHECK(log_file_name(LogLayout::ranks, LocalRank{1}, GlobalRank{123456}, Stream::error) ==
        "rank-123456.err");
  CHECK(stack_record_name(LogLayout::ranks, LocalRank{1}, GlobalRank{5}) == "rank-00005.stacks");
}

TEST_CASE("a run's folder stays below the folder of the logs") {
  CHECK(folder_name("1234.0") == "1234.0");
  CHECK(folder_name("../x") == ".._x");
  CHECK(folder_name("..") == ".._");
  CHECK(folder_name("latest") == "latest_");
}

TEST_CASE("a rotation is a size and a number of older files") {
  CHECK(parse_rotation("100M:3", "").bytes == 100U << 20U);
  CHECK(parse_rotation("100M:3", "").kept == 3);
  CHECK(parse_rotation("2048", "").kept == 5);
  CHECK(parse_rotation("1g:0", "").bytes == 1U << 30U);
  for (const char* text : {"", "0", "1000", "M", "1M:", "1M:x", "1M:-1", "1X", "9999999999T"}) {
    CHECK(usage_error_of([&] { parse_rotation(text, "--log-rotate"); }) ==
          "--log-rotate is not a size of log files: '" + std::string(text) +
              "' | give a size of 1k or more and the number of older files to keep, as in 100M:5");
  }
}
