#include "ddprun/supervise/supervisor.hpp"

#include <algorithm>
#include <csignal>
#include <tuple>

namespace ddprun {

void Supervisor::note_start(const Assignment& assignment) {
  if (state_ != State::idle) return;
  attempt_ = assignment.attempt;
  workers_.clear();
  for (const WorkerSeat& seat : assignment.seats) workers_.push_back({seat.rank, false, std::nullopt});
  start_wanted_ = true;
  failure_reported_ = false;
  stop_signal_.reset();
  stop_sent_ = false;
  hurry_ = false;
  killed_ = false;
  stuck_reported_ = false;
  forwarded_.clear();
  sweeps_ = 0;
  descendants_.reset();
  deadline_.reset();
}

void Supervisor::note_spawned(std::size_t worker) { workers_.at(worker).running = true; }

void Supervisor::note_ended(std::size_t worker, const ExitStatus& status) {
  workers_.at(worker).running = false;
  workers_.at(worker).ended = status;
}

void Supervisor::note_descendants(std::size_t count) { descendants_ = count; }

void Supervisor::note_stop(int signal, bool hurry, TimePoint now) {
  if (stop_signal_ && hurry) {
    hurry_ = true;
    if (deadline_ && !killed_) deadline_ = std::min(*deadline_, now);
    return;
  }
  if (!stop_signal_) stop_signal_ = signal;
}

void Supervisor::note_signal(int signal) { forwarded_.push_back(signal); }

std::vector<SupervisorAction> Supervisor::decide(TimePoint now) {
  std::vector<SupervisorAction> actions;
  if (start_wanted_) begin(actions);
  if (state_ == State::idle) {
    forwarded_.clear();
    return actions;
  }
  report_first_failure(actions);
  for (const int signal : forwarded_) {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].running) actions.push_back(act::SignalWorker{i, signal});
    }
  }
  forwarded_.clear();
  if (stop_signal_ && state_ != State::sweeping) stop(actions, now);
  if (all_ended()) sweep(actions, now);
  return actions;
}

std::optional<ExitStatus> Supervisor::status(std::size_t worker) const { return workers_.at(worker).ended; }

bool Supervisor::running(std::size_t worker) const { return workers_.at(worker).running; }

bool Supervisor::stuck() const { return state_ == State::stopping && stuck_reported_ && !all_ended(); }

void Supervisor::begin(std::vector<SupervisorAction>& actions) {
  start_wanted_ = false;
  state_ = State::running;
  for (std::size_t i = 0; i < workers_.size(); ++i) actions.push_back(act::Spawn{i});
}

void Supervisor::report_first_failure(std::vector<SupervisorAction>& actions) {
  // Workers that end after the stop was asked for were told to: they are no cause.
  if (failure_reported_ || stop_signal_ || state_ != State::running) return;
  const auto order = [](const Worker& worker) {
    return std::tuple(worker.ended->kind != ExitStatus::Kind::signalled, worker.rank);
  };
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].ended || workers_[i].ended->success()) continue;
    if (!first || order(workers_[i]) < order(workers_[*first])) first = i;
  }
  if (!first) return;
  failure_reported_ = true;
  actions.push_back(act::ReportFailure{*first});
}

void Supervisor::stop(std::vector<SupervisorAction>& actions, TimePoint now) {
  if (!stop_sent_) {
    stop_sent_ = true;
    state_ = State::stopping;
    deadline_ = now + (hurry_ ? Milliseconds{0} : grace_);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].running) actions.push_back(act::SignalWorker{i, *stop_signal_});
    }
  }
  if (!deadline_ || now < *deadline_) return;
  if (killed_) {
    deadline_.reset();
    stuck_reported_ = true;
  } else {
    deadline_ = now + k_stuck_after;
    killed_ = true;
    hurry_ = true;  // what is left of those that did not obey gets no second grace
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].running) continue;
    stuck_reported_ ? actions.push_back(act::ReportStuck{i}) : actions.push_back(act::KillGroup{i});
  }
}

void Supervisor::sweep(std::vector<SupervisorAction>& actions, TimePoint now) {
  if (state_ != State::sweeping) {
    state_ = State::sweeping;
    deadline_ = now + k_sweep_grace;
    descendants_.reset();
    actions.push_back(act::SignalDescendants{hurry_ ? SIGKILL : SIGTERM});
    return;
  }
  if (descendants_ == 0U || (sweeps_ >= k_sweep_limit && descendants_)) return finish(actions);
  if (deadline_ && now < *deadline_) return;
  ++sweeps_;
  deadline_ = now + k_sweep_grace;
  descendants_.reset();
  actions.push_back(act::SignalDescendants{SIGKILL});
}

void Supervisor::finish(std::vector<SupervisorAction>& actions) {
  state_ = State::idle;
  deadline_.reset();
  if (descendants_ != 0U) actions.push_back(act::ReportLeftBehind{});
  const bool success = std::all_of(workers_.begin(), workers_.end(),
                                   [](const Worker& worker) { return worker.ended->success(); });
  if (success && !stop_signal_) {
    actions.push_back(act::ReportSuccess{});
  } else {
    actions.push_back(act::ReportStopped{});
  }
}

bool Supervisor::all_ended() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.ended.has_value(); });
}

}  // namespace ddprun
