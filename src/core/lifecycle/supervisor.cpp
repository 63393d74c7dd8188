#include "lifecycle/supervisor.hpp"

#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

namespace ddprun::lifecycle {

namespace {

// Time between the first and the last process of a tree that is signalled.
constexpr Milliseconds k_request_lag{100};

// Returns the signal of a death, which a shell in between reports as an exit code.
int signal_of(const ExitStatus& status) {
  if (status.kind == ExitStatus::Kind::signalled) return status.value;
  return status.kind == ExitStatus::Kind::exited && status.value > 128 ? status.value - 128 : 0;
}

}  // namespace

bool asks_to_end(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

void Supervisor::note_start(const plan::Assignment& assignment) {
  if (state_ != State::idle) return;
  attempt_ = assignment.attempt;
  workers_.clear();
  for (const plan::RankAssignment& assigned : assignment.workers)
    workers_.push_back({assigned.rank, false, std::nullopt});
  start_wanted_ = true;
  failure_reported_ = false;
  stop_signal_.reset();
  stop_begun_ = false;
  stop_sent_ = false;
  stop_continued_ = false;
  hurry_ = false;
  killed_ = false;
  look_at_.reset();
  stuck_reported_ = false;
  forwarded_.clear();
  requests_.clear();
  has_terminal_ = false;
  held_until_.reset();
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

void Supervisor::note_stop(int signal, bool hurry, TimePoint now, Delivery delivery) {
  if (state_ == State::sweeping && all_succeeded()) return;
  if (stop_signal_ && hurry) {
    hurry_ = true;
    if (deadline_ && !killed_) deadline_ = std::min(*deadline_, now);
    return;
  }
  if (stop_signal_) return;
  stop_signal_ = signal;
  delivery_ = delivery;
}

void Supervisor::note_delivery(int signal, bool pass_on) {
  if (asks_to_end(signal)) requests_.insert(signal);
  if (signal != stop_signal_) {
    if (pass_on) forwarded_.push_back(signal);
    return;
  }
  if (delivery_ != Delivery::undecided) return;
  delivery_ = Delivery::by_us;
  stop_sent_ = stop_sent_ || !pass_on;
}

void Supervisor::extend_grace(Milliseconds grace) {
  if (grace <= grace_) return;
  grace_ = grace;
  if (stop_begun_ && !hurry_ && !killed_ && state_ == State::stopping) set_deadlines();
}

void Supervisor::set_deadlines() {
  deadline_ = stop_began_ + (hurry_ ? Milliseconds{0} : grace_);
  look_at_.reset();
  if (!hurry_ && grace_ > 2 * k_look_before) look_at_ = *deadline_ - k_look_before;
}

void Supervisor::note_terminal() { has_terminal_ = true; }

std::vector<SupervisorAction> Supervisor::decide(TimePoint now) {
  std::vector<SupervisorAction> actions;
  if (start_wanted_) begin(actions);
  if (state_ == State::idle) {
    forwarded_.clear();
    return actions;
  }
  report_first_failure(actions, now);
  pass_on_signals(actions);
  if (stop_signal_ && state_ != State::sweeping) stop(actions, now);
  if (all_ended() && !held_until_) sweep(actions, now);
  return actions;
}

std::optional<TimePoint> Supervisor::deadline() const {
  std::optional<TimePoint> soonest = deadline_;
  for (const auto& each : {held_until_, look_at_}) {
    if (each) soonest = std::min(*each, soonest.value_or(*each));
  }
  return soonest;
}

std::optional<ExitStatus> Supervisor::status(std::size_t worker) const { return workers_.at(worker).ended; }

bool Supervisor::running(std::size_t worker) const { return workers_.at(worker).running; }

bool Supervisor::stuck() const { return state_ == State::stopping && stuck_reported_ && !all_ended(); }

void Supervisor::begin(std::vector<SupervisorAction>& actions) {
  start_wanted_ = false;
  state_ = State::running;
  for (std::size_t i = 0; i < workers_.size(); ++i) actions.push_back(act::Spawn{i});
}

void Supervisor::report_first_failure(std::vector<SupervisorAction>& actions, TimePoint now) {
  // Workers that end after the stop was asked for were told to: they are no cause.
  const bool looked_for = !failure_reported_ && !stop_signal_ && state_ == State::running;
  const std::optional<std::size_t> first = looked_for ? first_failure() : std::nullopt;
  if (!first) {
    held_until_.reset();
    return;
  }
  const ExitStatus& status = *workers_[*first].ended;
  if (const auto signal = request_behind(status)) {
    actions.push_back(act::ReportRequest{*signal});
  } else if (asks_to_end(signal_of(status)) && (!held_until_ || now < *held_until_)) {
    if (!held_until_) held_until_ = now + k_request_lag;
    return;
  } else {
    actions.push_back(act::ReportFailure{*first});
  }
  failure_reported_ = true;
  held_until_.reset();
}

std::optional<std::size_t> Supervisor::first_failure() const {
  const auto order = [](const Worker& worker) {
    return std::tuple(worker.ended->kind != ExitStatus::Kind::signalled, worker.rank);
  };
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].ended || workers_[i].ended->success()) continue;
    if (!first || order(workers_[i]) < order(workers_[*first])) first = i;
  }
  return first;
}

// Returns the signal by which this end was requested.
std::optional<int> Supervisor::request_behind(const ExitStatus& status) const {
  const int signal = signal_of(status);
  const bool key = has_terminal_ && (signal == SIGINT || signal == SIGQUIT || signal == SIGHUP);
  return key || requests_.contains(signal) ? std::optional(signal) : std::nullopt;
}

void Supervisor::pass_on_signals(std::vector<SupervisorAction>& actions) {
  for (const int signal : std::exchange(forwarded_, {})) signal_all(signal, actions);
}

void Supervisor::signal_all(int signal, std::vector<SupervisorAction>& actions) const {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].running) actions.push_back(act::SignalWorker{i, signal});
  }
}

void Supervisor::continue_all(std::vector<SupervisorAction>& actions) const {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].running) actions.push_back(act::ContinueWorker{i});
  }
}

void Supervisor::stop(std::vector<SupervisorAction>& actions, TimePoint now) {
  if (!stop_begun_) {
    stop_begun_ = true;
    state_ = State::stopping;
    stop_began_ = now;
    set_deadlines();
  }
  if (!stop_continued_ && delivery_ == Delivery::by_us) {
    stop_continued_ = true;
    if (!std::exchange(stop_sent_, true)) signal_all(*stop_signal_, actions);
    continue_all(actions);
  }
  if (look_at_ && now >= *look_at_) {
    look_at_.reset();
    if (!all_ended()) actions.push_back(act::LookWhereTheyAre{});
  }
  if (!deadline_ || now < *deadline_) return;
  look_at_.reset();
  if (killed_) {
    deadline_.reset();
    stuck_reported_ = true;
  } else {
    deadline_ = now + k_stuck_after;
    killed_ = true;
    hurry_ = true;  // survivors of the first grace get no second one
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].running) continue;
    if (stuck_reported_) {
      actions.push_back(act::ReportStuck{i});
    } else {
      actions.push_back(
          act::KillGroup{i, *stop_signal_, std::chrono::floor<Milliseconds>(now - stop_began_)});
    }
  }
}

void Supervisor::sweep(std::vector<SupervisorAction>& actions, TimePoint now) {
  if (state_ != State::sweeping) {
    state_ = State::sweeping;
    look_at_.reset();
    deadline_ = now + k_sweep_grace;
    descendants_.reset();
    actions.push_back(act::SignalDescendants{hurry_ ? SIGKILL : SIGTERM, all_succeeded()});
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
  if (all_succeeded() && !stop_signal_) {
    actions.push_back(act::ReportSuccess{});
  } else {
    actions.push_back(act::ReportStopped{});
  }
}

bool Supervisor::all_ended() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.ended.has_value(); });
}

bool Supervisor::all_succeeded() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.ended && worker.ended->success(); });
}

}  // namespace ddprun::lifecycle
