// The result of a check for people and programs.
#pragma once

#include <string>
#include <vector>

#include "base/duration.hpp"
#include "check/finding.hpp"

namespace ddprun::check {

struct CheckResult {
  std::vector<HostRecord> records;
  std::vector<DeepResult> deep;  // results of all ranks; empty: not asked for, or there were errors before
  bool deep_left_out = false;
  std::vector<Finding> findings;
  Milliseconds took{0};
};

// Reports whether the job would fail; with `strict` also if a warning was found.
bool fails(const CheckResult& result, bool strict);

// Returns the nodes that have an error, in the order of the ranks.
std::vector<std::string> failing_nodes(const CheckResult& result);

// Renders a table of the nodes, what is the same on all of them, a mark, a sentence and a fix for each
// finding, and one line of the sum.
std::string render_check_text(const CheckResult& result);
// Renders {"format", "result", "seconds", "nodes": [records], "deep": [results], "findings": [{"mark",
// "subject", "nodes", "what", "fix"}]}; units are seconds and bytes.
std::string render_check_json(const CheckResult& result, bool strict);

}  // namespace ddprun::check
