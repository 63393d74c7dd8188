#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "allocation/schedulers/slurm_place.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "event_loop/signal_watch.hpp"
#include "lifecycle/after_success.hpp"
#include "options/options.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/process_table.hpp"
#include "os/process/signals.hpp"
#include "os/read_file.hpp"
#include "os/terminal/terminal.hpp"
#include "status/native_stack.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::workers {

// Signals sent to workers directly, and which of them they get.

// Holds the worker's signals, unless a worker has the terminal: then no other process signals it.
void WorkerGroup::hold_signals(Worker& worker) const {
  if (terminal_ || !allocation::signals_each_process(snapshot_.host)) return;
  if (!os::hold_signals(worker.child->pid())) return;
  worker.held_signals.emplace(event_loop::stop_signals_of(node_->options),
                              node_->options.shutdown_timeout.value);
}

void WorkerGroup::continue_stopped(std::size_t worker) {
  Worker& state = *workers_[worker];
  if (state.ended || !state.child) return;
  const auto process = os::capture_process(state.child->pid());
  const bool is_stopped = process && (process->state == 'T' || process->state == 't');
  if (is_stopped || !os::sees_own_processes()) state.child->send_signal_to_group(SIGCONT);
}

void WorkerGroup::answer_held_signals() {
  const TimePoint now = std::chrono::steady_clock::now();
  for (const auto& worker : workers_) {
    if (worker->ended || !worker->child || !worker->held_signals) continue;
    const int pid = worker->child->pid();
    while (const auto number = os::next_held_signal(pid))
      os::release_signal(pid, worker->held_signals->passes(*number, now) ? *number : 0);
  }
}

// Standby interpreters: prepared while the workers run, and taken at the next attempt's start.

namespace {

constexpr Milliseconds k_take_limit{2000};  // limit for all workers together

}  // namespace

void WorkerGroup::begin_standbys() {
  take_until_ = os::now() + k_take_limit;
  if (!standbys_) return;
  standbys_->drop_from(plan_->planned.size());
  standbys_->begin(folder_.path() + "/standby");
}

// Starts a standby interpreter. Python asks once, as it starts, whether its output is a terminal.
void WorkerGroup::start_standby(std::size_t worker, const plan::LaunchPlan& expected) {
  const plan::LaunchPlan& plan = worker < workers_.size() ? *plan_ : expected;
  begin_inspection(plan);
  standbys_->begin(folder_.path() + "/standby");  // on a spare no attempt has begun
  WorkerStreams streams;
  const int null = streams.own(os::open_null());
  const bool to_terminal = terminal_.has_value();
  streams.input = null;
  streams.output = to_terminal && os::is_terminal(STDOUT_FILENO) ? STDOUT_FILENO : null;
  streams.error = to_terminal && os::is_terminal(STDERR_FILENO) ? STDERR_FILENO : null;
  const std::string error_file = worker < workers_.size() ? workers_[worker]->error_file : std::string();
  standbys_->start(worker, make_request(plan, worker, streams, error_file));
}

bool WorkerGroup::take_standby(std::size_t worker, const os::SpawnRequest& request) {
  if (!standbys_) return false;
  Worker& state = *workers_[worker];
  auto taken = standbys_->take(worker, request, take_until_);
  if (auto* const why_not = std::get_if<std::string>(&taken)) {
    if (plan_->assignment.attempt.value > 0) state.started = "without a standby interpreter: " + *why_not;
    return false;
  }
  state.started = "by a standby interpreter";
  state.child = std::move(std::get<os::Child>(taken));
  if (request.terminal >= 0) terminal_->give_to(state.child->pid());
  return true;
}

// torch's watchdog timers of an attempt's workers: what does not finish in the time it asked for is killed,
// and is then a failure like any other.

void WorkerGroup::begin_watchdog() {
  watchdog_.reset();
  if (facts::find_variable(snapshot_, "TORCHELASTIC_ENABLE_FILE_TIMER") != "1") return;
  const std::string named = facts::find_variable(snapshot_, "TORCHELASTIC_TIMER_FILE").value_or("");
  try {
    watchdog_.emplace(context_,
                      named.empty() ? attempt_folder(plan_->assignment.attempt) + "/watchdog" : named,
                      [this](const lifecycle::WatchdogTimers::Expired& expired) { end_expired(expired); });
  } catch (const Error& error) {
    console::say_notice(fmt::format("cannot start the watchdog timers on {}: {}", node_->host, error.what()),
                        "set TORCHELASTIC_TIMER_FILE to another path");
  }
}

// Ends a process whose timer has expired, only one below ours: any text may be written into the pipe.
void WorkerGroup::end_expired(const lifecycle::WatchdogTimers::Expired& expired) {
  const os::ProcessTable below = os::find_descendants(os::capture_processes(), ::getpid());
  const auto found = std::find_if(below.begin(), below.end(), [&](const os::ProcessEntry& process) {
    return process.pid == expired.pid;
  });
  if (found == below.end() || !os::send_signal_to(*found, expired.signal)) return;
  const auto worker = std::find_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return each->child && each->child->pid() == expired.pid;
  });
  const auto assigned = static_cast<std::size_t>(worker - workers_.begin());
  const std::string who = worker == workers_.end()
                              ? fmt::format("process {}", expired.pid)
                              : fmt::format("rank {}", plan_->assignment.workers[assigned].rank.value);
  console::say_notice(
      fmt::format("the watchdog timer '{}' of {} on {} has expired: {} sent", printable(expired.scope), who,
                  node_->host, options::signal_name(expired.signal)),
      {});
}

// Processes that outlive their worker, or SIGKILL: found, reported, and signalled by group if need be.

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

// Facts about a worker's end, beside its output.

namespace {

constexpr std::size_t k_crash_limit = std::size_t{64} << 10;

}  // namespace

// Returns the lines that its Python wrote at a death by SIGSEGV and the like
// (workers/inspection/ddprun_inspection.py).
std::vector<std::string> WorkerGroup::crash_lines(std::size_t worker, const ExitStatus& status) const {
  constexpr std::array k_crashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  const bool crashed = status.kind == ExitStatus::Kind::signalled &&
                       std::ranges::find(k_crashes, status.value) != k_crashes.end();
  const std::string prefix = crashed ? inspect_prefix(worker) : "";
  return prefix.empty() ? std::vector<std::string>()
                        : status::crash_lines(os::read_tail(prefix + ".crash", k_crash_limit));
}

std::vector<output::LogIndexEntry> WorkerGroup::index_entries() const {
  std::vector<output::LogIndexEntry> entries;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = *workers_[i];
    output::LogIndexEntry entry;
    entry.rank = plan_->assignment.workers[i].rank;
    entry.local_rank = plan_->assignment.workers[i].local_rank;
    entry.attempt = plan_->assignment.attempt;
    entry.host = node_->host;
    entry.pid = worker.child ? worker.child->pid() : 0;
    if (worker.status && worker.status->kind == ExitStatus::Kind::exited)
      entry.exit_code = worker.status->value;
    if (worker.status && worker.status->kind == ExitStatus::Kind::signalled)
      entry.signal = options::signal_name(worker.status->value);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace ddprun::workers
