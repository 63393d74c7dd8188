#include "commands/check_start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "check/gpu_release.hpp"
#include "check/record_fields.hpp"
#include "console/log.hpp"
#include "inspection/nvml_health.hpp"
#include "os/clock.hpp"
#include "os/process/child_call.hpp"
#include "os/system_failure.hpp"
#include "plan/worker_command.hpp"
#include "probes/node_record.hpp"
#include "probes/own_check.hpp"

namespace ddprun::commands {

namespace {

constexpr Milliseconds k_second_patience{3000};
constexpr Milliseconds k_memory_limit{5000};
constexpr Milliseconds k_memory_pause{500};

std::string describe(const check::Finding& finding, const std::string& host) {
  return fmt::format("{} on {}: {}", finding.subject, host, finding.what);
}

// The coordinator's node is none that the job can do without.
bool can_be_left_out(const plan::NodeProposal& node) {
  return options::outlives_nodes(node.options) && node.rendezvous.agent.value != 0;
}

// Returns whether it is a verdict.
bool heed(const lifecycle::CommandVerdict& verdict, const plan::NodeProposal& node) {
  if (verdict.fitness == lifecycle::Fitness::unknown)
    console::say_notice(lifecycle::describe_broken(verdict, node.host), lifecycle::k_broken_hint);
  if (verdict.fitness != lifecycle::Fitness::unfit) return verdict.fitness != lifecycle::Fitness::unknown;
  console::say_notice(probes::exclude_node(node));
  throw Error(fmt::format("{} on {}: {}", node.options.check.command.origin, node.host, verdict.what),
              lifecycle::k_unfit_hint, can_be_left_out(node) ? k_exit_own_failure : k_exit_unfit);
}

void heed(const std::vector<check::Finding>& findings, const plan::NodeProposal& node) {
  for (const check::Finding& finding : findings) {
    const bool error = finding.mark == check::Mark::error;
    if (error) console::say_notice(probes::exclude_node(node));
    if (error && can_be_left_out(node)) throw Error(describe(finding, node.host), finding.fix);
    if (error || node.rendezvous.agent.value == 0)
      console::say_notice(describe(finding, node.host), finding.fix);
  }
}

// Reports whether something is wrong of which a busy machine may be the reason.
bool is_doubtful(const check::HostRecord& record) {
  return std::ranges::any_of(check::judge_alone(record), [](const check::Finding& each) {
    return each.mark == check::Mark::error || each.subject == "disk";
  });
}

std::vector<check::GpuMemory> find_held(const std::vector<std::string>& gpus,
                                        const check::HostRecord& before) {
  const os::ChildAnswer answer = os::call_in_child(
      [] { return check::render_json_text(inspection::capture_gpu_memory()); }, k_memory_limit);
  if (!answer.bytes) return {};
  return check::find_held(check::parse_json_text<std::vector<check::GpuMemory>>(*answer.bytes), gpus, {},
                          before);
}

// Waits until no other process holds memory of the workers' GPUs: what an earlier job has left. Returns
// whether one did.
bool wait_for_memory(const plan::NodeProposal& node, const facts::Snapshot& snapshot,
                     check::HostRecord record) {
  // The others wait for this node meanwhile.
  const Milliseconds patience =
      std::min(node.options.check.release_timeout, node.rendezvous.join_timeout / 2);
  const std::vector<std::string> gpus = check::whole_gpus(snapshot.host, node.offered);
  bool any = false;
  for (check::GpuHealth& each : record.gpus) any |= std::exchange(each.used, 0) > check::k_free_gpu_memory;
  if (!any || gpus.empty() || patience == Milliseconds{0}) return false;
  auto held = find_held(gpus, record);
  if (held.empty()) return false;
  const check::Finding first = check::describe_held(held, node.host, Milliseconds{0});
  console::say_notice(fmt::format("{}; waiting for it, {} at most (--gpu-release-timeout)",
                                  describe(first, node.host), describe_duration(patience)),
                      first.fix);
  for (const TimePoint until = os::now() + patience; !held.empty() && os::now() < until;) {
    std::this_thread::sleep_for(k_memory_pause);
    held = find_held(gpus, record);
  }
  if (!held.empty()) heed({check::describe_held(held, node.host, patience)}, node);
  return true;
}

}  // namespace

probes::StartLook check_before_start(const plan::NodeProposal& node, const facts::Snapshot& snapshot) {
  std::optional<os::ChildCall> command;
  if (probes::has_own_check(node)) command.emplace([&] { return probes::ask_own_check(node, snapshot, {}); });
  probes::StartLook look;
  if (node.options.check.automatic && node.rendezvous.agents >= 2) {
    probes::CheckedNode checked;
    checked.workers = node.local_world_size;
    checked.quick = true;
    look.record = probes::make_node_record(checked, snapshot);
    if (wait_for_memory(node, snapshot, *look.record) || is_doubtful(*look.record)) {
      checked.patience = k_second_patience;
      look.record = probes::make_node_record(checked, snapshot);
    }
    heed(check::judge_alone(*look.record), node);
  }
  if (command) {
    const auto answer = command->wait(node.options.check.limit.value + probes::k_own_check_margin);
    look.command_is_broken = !heed(probes::read_verdict(answer.bytes.value_or("")), node);
  }
  return look;
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
