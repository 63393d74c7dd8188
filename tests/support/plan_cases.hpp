// The folders of tests/data/plans: what to plan for, and the plan as the user sees it.
#pragma once

#include <filesystem>
#include <vector>

#include "facts/snapshot.hpp"
#include "options/options.hpp"

namespace ddprun::test {

struct PlanCase {
  std::filesystem::path folder;
  facts::Snapshot snapshot;
  options::Options options;
};

// options.json has the keys
//   allocation   the folder of tests/data/allocations to start from; absent: a host n1 without variables
//   environment  further variables
//   files        contents of files by path
//   host         facts: name, cpus ("0-7"), cores, online, quota, gpus (a number), vendor, unix_time,
//                interfaces (addresses by name)
//   programs     what PATH finds, by name: the path, or path and version; "ddprun" is this program's file
//   flags        options by name
//   command      the program and its arguments
PlanCase read_plan_case(const std::filesystem::path& folder);
// All of them, read once.
const std::vector<PlanCase>& plan_cases();

}  // namespace ddprun::test
