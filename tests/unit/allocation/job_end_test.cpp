#include "allocation/schedulers/job_end.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.hpp"
#include "catch.hpp"
#include "test_paths.hpp"

using namespace ddprun;
using namespace ddprun::allocation;

namespace {

struct Case {
  std::string head, expected, shown;
};

Case read_case(const std::filesystem::path& path) {
  std::ifstream file(path);
  Case found;
  std::getline(file, found.head);
  std::getline(file, found.expected);
  found.expected = std::string(trim(found.expected.substr(std::string("# expected:").size())));
  std::stringstream rest;
  rest << file.rdbuf();
  found.shown = rest.str();
  return found;
}

// "...; 21 s old"
AgeOfDate age_in(const std::string& head) {
  const std::size_t at = head.find("; ");
  const auto age =
      at == std::string::npos ? std::nullopt : parse_integer(split_words(head.substr(at + 2))[0]);
  return [age](const std::string&) { return age; };
}

// "job 7 was ..."; any number where nothing is expected.
Allocation allocation_of(const Case& each) {
  Allocation allocation;
  const auto words = split_words(each.expected);
  allocation.job_id.value = words.size() > 1 ? words[1] : "7";
  return allocation;
}

}  // namespace

TEST_CASE("why a scheduler ends a job is read from what its own program shows") {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DDPRUN_TEST_DATA "/job_ends")) {
    const std::string name = entry.path().filename().string();
    const Case each = read_case(entry.path());
    INFO(name << ": " << each.head);
    const Allocation allocation = allocation_of(each);
    const std::string said = name.starts_with("slurm")
                                 ? describe_end_of_slurm_job(each.shown, allocation)
                                 : describe_end_of_pbs_job(each.shown, allocation, age_in(each.head));
    CHECK(said == each.expected);
    ++cases;
  }
  CHECK(cases >= 8);
}

TEST_CASE("a job that has been requeued before is not requeued now") {
  Allocation allocation;
  allocation.job_id.value = "8";
  allocation.restart_count.value = 1;
  CHECK(describe_end_of_slurm_job("JobId=8 JobState=RUNNING Reason=None Restarts=1", allocation).empty());
  CHECK(describe_end_of_slurm_job("JobId=8 JobState=COMPLETING Reason=None Restarts=2", allocation) ==
        "job 8 is requeued");
  CHECK(
      describe_end_of_slurm_job("JobId=8 JobState=COMPLETING Reason=None Restarts=1 ExitCode=0:0",
                                allocation) ==
      "job 8 was cancelled, or its script has ended");  // scancel, while the script's last line is exec srun
}

TEST_CASE("a walltime that is not used up, and dates that are none, say nothing") {
  Allocation allocation;
  allocation.job_id.value = "1.ctl";
  const auto said = [&](const std::string& shown, std::optional<std::int64_t> age) {
    return describe_end_of_pbs_job(shown, allocation, [&](const std::string&) { return age; });
  };
  CHECK(said("    Resource_List.walltime = 00:10:00\n", 300).empty());
  CHECK(said("    Resource_List.walltime = 00:10:00\n", 601) == "job 1.ctl reached its walltime of 00:10:00");
  CHECK(said("    Resource_List.walltime = soon\n", 601).empty());
  CHECK(said("    Resource_List.walltime = 00:10:00\n", std::nullopt).empty());
  CHECK(said("", 601).empty());
}

TEST_CASE("of the reasons for a job's end only two are its time limit") {
  CHECK(names_time_limit("job 2 reached its time limit of 00:01:00"));
  CHECK(names_time_limit("job 0.ctl reached its walltime of 00:00:20"));
  CHECK_FALSE(names_time_limit("job 2 was cancelled"));
  CHECK_FALSE(names_time_limit(""));
}
