#include "commands/check_start.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "check/finding.hpp"
#include "console/log.hpp"
#include "os/system_failure.hpp"
#include "plan/worker_command.hpp"
#include "probes/node_record.hpp"

namespace ddprun::commands {

namespace {

std::vector<check::Finding> judge_alone(const check::HostRecord& record) {
  std::vector<check::Finding> findings;
  check::judge_surroundings(record, findings);
  check::judge_variables(record, true, findings);
  check::judge_gpus(record, findings);
  return findings;
}

void say_problem(const std::optional<allocation::Notice>& problem) {
  if (problem) console::say_notice(problem->what, problem->hint);
}

std::string describe(const check::Finding& finding, const std::string& host) {
  return fmt::format("{} on {}: {}", finding.subject, host, finding.what);
}

}  // namespace

std::optional<check::HostRecord> check_before_start(const plan::NodeProposal& node,
                                                    const facts::Snapshot& snapshot) {
  if (!node.options.check.automatic || node.rendezvous.agents < 2) return std::nullopt;
  probes::CheckedNode checked;
  checked.workers = node.local_world_size;
  checked.quick = true;
  check::HostRecord record = probes::make_node_record(checked, snapshot);
  const bool first = node.rendezvous.agent.value == 0;
  bool excluded = false;
  for (const check::Finding& finding : judge_alone(record)) {
    const bool error = finding.mark == check::Mark::error;
    if (error && !std::exchange(excluded, true)) say_problem(probes::exclude_node(node));
    // The coordinator's node is none that the job can do without.
    if (error && options::outlives_nodes(node.options) && !first)
      throw Error(describe(finding, node.host), finding.fix);
    if (error || first) console::say_notice(describe(finding, node.host), finding.fix);
  }
  return record;
}

void check_staged(const plan::NodeProposal& node, const facts::Snapshot& snapshot) {
  if (node.rendezvous.agent.value != 0) return;
  for (const std::string& path : plan::staged_paths(node.options, snapshot)) {
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !error)
      error = std::make_error_code(std::errc::no_such_file_or_directory);
    if (!error && path != "/") continue;
    throw Error(fmt::format("cannot stage {} on {}: {}", printable(path), node.host,
                            error ? os::describe_errno(error.value()) : "it is the whole file system"),
                "--stage takes an existing file or folder", k_exit_not_found);
  }
}

}  // namespace ddprun::commands
