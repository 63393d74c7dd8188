#include <algorithm>

#include "check/finding.hpp"

namespace ddprun::check {

namespace {

bool is_same(const Finding& one, const Finding& other) {
  return one.mark == other.mark && one.subject == other.subject && one.what == other.what &&
         one.fix == other.fix;
}

// Joins equal findings of several nodes into one.
std::vector<Finding> join_equal(std::vector<Finding> findings) {
  std::vector<Finding> joined;
  for (Finding& finding : findings) {
    const auto known =
        std::ranges::find_if(joined, [&](const Finding& each) { return is_same(each, finding); });
    if (known == joined.end()) {
      joined.push_back(std::move(finding));
      continue;
    }
    for (std::string& host : finding.hosts) {
      if (std::ranges::find(known->hosts, host) == known->hosts.end())
        known->hosts.push_back(std::move(host));
    }
  }
  std::ranges::stable_sort(joined,
                           [](const Finding& one, const Finding& other) { return one.mark < other.mark; });
  return joined;
}

}  // namespace

std::vector<Finding> judge(const std::vector<HostRecord>& records) {
  std::vector<Finding> findings;
  const bool several = records.size() > 1;
  for (const HostRecord& record : records) {
    judge_surroundings(record, findings);
    judge_names(record, several, findings);
    judge_variables(record, several, findings);
    judge_gpus(record, findings);
  }
  judge_connections(records, findings);
  judge_likeness(records, findings);
  return join_equal(std::move(findings));
}

std::vector<Finding> judge_alone(const HostRecord& record) {
  std::vector<Finding> findings;
  judge_surroundings(record, findings);
  judge_variables(record, true, findings);
  judge_gpus(record, findings);
  return findings;
}

std::string reason_of(const Finding& finding) {
  return finding.what.starts_with(finding.subject) ? finding.what : finding.subject + ": " + finding.what;
}

}  // namespace ddprun::check
