#include "status/flight_record.hpp"

#include "catch.hpp"
#include "test_data.hpp"

using namespace ddprun;
using namespace ddprun::status;

namespace {

std::string constructed(const std::string& name) { return test_data("nccl_ras/" + name); }

}  // namespace

TEST_CASE("RAS: what each process has started in all communicators; a missing one has no count") {
  const auto processes = parse_ras_answer(constructed("nccl-2.28-source-one-rank-behind.txt"));
  CHECK(processes == std::vector<RasProcess>{{"127.0.0.1", 4711, {1855, 0}}, {"127.0.0.1", 4712, {1844, 1}}});
}

TEST_CASE("RAS: text, errors and what is no answer of it count for nothing") {
  const std::string answer = constructed("nccl-2.28-source-one-rank-behind.txt");
  CHECK(parse_ras_answer("").empty());
  CHECK(parse_ras_answer(answer.substr(answer.find('{'))).empty());
  CHECK(parse_ras_answer(answer.substr(0, answer.size() / 2)).empty());
  CHECK(parse_ras_answer("SERVER PROTOCOL 2\nOK\nERROR: Unknown command SET FORMAT json\nNCCL version 2.26\n")
            .empty());
  CHECK(parse_ras_answer(
            "SERVER PROTOCOL 2\n{\"communicators\":[7,{\"ranks\":[7,{\"pid\":-1},{\"pid\":1e99}]}]}")
            .empty());
  const auto odd = parse_ras_answer(R"(SERVER PROTOCOL 3
{"communicators":[{"ranks":[{"host":"h","pid":7,"collective_counts":{"AllReduce":-3,"Send":"x"}}]}]})");
  CHECK(odd == std::vector<RasProcess>{{"h", 7, {0, 0}}});
}
