// Processes that outlive their worker, or SIGKILL: found, reported, and signalled by group if need be.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "console/log.hpp"
#include "lifecycle/survivors.hpp"
#include "os/process/process_table.hpp"
#include "os/process/stuck_process.hpp"
#include "os/read_file.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::workers {

namespace {

constexpr std::size_t k_shown_command = 4096;

}  // namespace

// Signals the process groups. Used if /proc hides other processes than ours, so that survivors cannot be
// counted: they get the time to obey SIGTERM, and then SIGKILL.
std::size_t WorkerGroup::signal_groups(int number) {
  for (const auto& worker : workers_) {
    if (worker->child) worker->child->send_signal_to_group(number);
  }
  presumed_left_ = number == SIGKILL ? 0 : 1;
  return presumed_left_;
}

void WorkerGroup::tell_foreign_proc() {
  if (os::sees_own_processes() || std::exchange(foreign_proc_told_, true)) return;
  console::say_notice(
      fmt::format("/proc on {} does not show this process' PID namespace: processes that workers leave "
                  "behind outside their process groups are not stopped",
                  node_->host),
      "mount the namespace's own /proc: unshare --mount-proc, or mount -t proc proc /proc");
}

facts::StuckProcess WorkerGroup::tell_stuck(std::size_t worker, Milliseconds after) {
  const Worker& state = *workers_[worker];
  if (!state.child || state.ended) return {};
  const facts::StuckProcess process = os::capture_stuck_process(state.child->pid());
  console::say_notice(fmt::format("rank {} on {} has not ended {} after SIGKILL: {}",
                                  plan_->assignment.workers[worker].rank.value, node_->host,
                                  describe_duration(after), facts::describe(process)),
                      facts::hint_for(process, node_->host));
  return process;
}

void WorkerGroup::tell_survivors() const {
  if (!os::sees_own_processes()) return;
  std::vector<lifecycle::Survivor> survivors;
  for (const os::ProcessEntry& each :
       os::find_descendants(os::capture_processes(), ::getpid(), main_processes())) {
    const std::string command = os::read_head(fmt::format("/proc/{}/cmdline", each.pid), k_shown_command);
    if (lifecycle::is_left_running(command)) survivors.push_back({each.name, each.pid});
  }
  if (survivors.empty()) return;
  const allocation::Notice notice = lifecycle::describe_survivors(survivors, node_->host);
  console::say_notice(notice);
}

void WorkerGroup::tell_left_behind(Milliseconds after) {
  const os::ProcessTable left = os::find_descendants(os::capture_processes(), ::getpid(), main_processes());
  if (left.empty()) return;
  const facts::StuckProcess process = os::capture_stuck_process(left.front().pid);
  const std::string others = left.size() > 1 ? fmt::format("; {} more are left", left.size() - 1) : "";
  console::say_notice(
      fmt::format("a process that a worker left behind on {} has not ended {} after SIGKILL: {}{}",
                  node_->host, describe_duration(after), facts::describe(process), others),
      facts::hint_for(process, node_->host));
}

}  // namespace ddprun::workers
