// Signals sent to workers directly, and which of them they get.
#include "allocation/schedulers/slurm_place.hpp"
#include "event_loop/stop_signals.hpp"
#include "os/process/held_signals.hpp"
#include "os/process/process_table.hpp"
#include "workers/worker_group.hpp"

namespace ddprun::workers {

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

}  // namespace ddprun::workers
