// Result of one rank's measurement with torch (--check=deep).
#pragma once

#include <string>
#include <vector>

#include "check/finding.hpp"

namespace ddprun::check {

struct DeepResult {
  int rank = 0;
  std::string host;
  std::string device;         // "NVIDIA H100 80GB HBM3", "CPU"
  std::string backend;        // "nccl", "gloo"; empty: there is one rank only
  double matmul = 0;          // operations per second; 0: no GPU
  std::vector<double> sizes;  // bytes that were reduced over all ranks
  std::vector<double> rates;  // for each of them: bus bandwidth in bytes per second, as nccl-tests count it
  std::string error;          // the first line of what went wrong; empty: nothing
};

// Adds findings for ranks that failed, and GPUs that compute much slower than the others.
void judge_deep(const std::vector<DeepResult>& results, std::vector<Finding>& findings);
// Returns lines for people: bandwidth by size, and the speed of the GPUs. Empty if nothing was measured.
std::string describe_deep(const std::vector<DeepResult>& results);

}  // namespace ddprun::check
