#include "ddprun/app/driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "ddprun/app/log.hpp"
#include "ddprun/plan/worker_env.hpp"
#include "ddprun/supervise/report.hpp"

namespace ddprun {

namespace {

using boost::system::error_code;

constexpr Milliseconds k_drain_limit{2000};         // for output that nobody reads
constexpr Milliseconds k_same_signal_window{100};   // proctrack/linuxproc and terminals deliver twice

TimePoint now() { return std::chrono::steady_clock::now(); }

std::vector<int> stop_signals_of(const Options& options) {
  if (!options.stop_signals.value.empty()) return options.stop_signals.value;
  return {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
}

std::vector<int> watched_signals(const Options& options) {
  std::vector<int> signals = handled_signals();
  for (const int signal : stop_signals_of(options)) {
    if (std::find(signals.begin(), signals.end(), signal) == signals.end()) signals.push_back(signal);
  }
  return signals;
}

}  // namespace

Driver::Driver(const NodePlan& plan, const Snapshot& snapshot)
    : plan_(plan),
      snapshot_(snapshot),
      signals_(watched_signals(plan.options)),
      signal_watch_(context_, duplicate(signals_.descriptor().get()).release()),
      timer_(context_),
      supervisor_(plan.options.shutdown_timeout.value),
      workers_(context_, plan, snapshot, [this](std::size_t worker, const ExitStatus& status) {
        supervisor_.note_ended(worker, status);
        decide_soon();
      }) {}

int Driver::run() {
  adopt_orphans();
  wait_for_signals();
  join();
  context_.run();
  return exit_code_;
}

void Driver::on_message(const CoordinatorMessage& message) {
  std::visit([this](const auto& each) { handle(each); }, message);
}

void Driver::handle(const Refused& refused) {
  say_error(refused.reason, refused.hint);
  Cause cause;
  cause.kind = Cause::Kind::launcher_failed;
  end(cause);
}

void Driver::handle(const Start& start) {
  supervisor_.note_start(start.assignment);
  workers_.begin_attempt(start.assignment, proven_interface(start.assignment));
  say_detail(fmt::format("attempt {}: {} workers on {} nodes, {}:{}", start.assignment.attempt.value,
                         start.assignment.world_size, start.assignment.node_count,
                         start.assignment.master_address, start.assignment.master_port));
  decide();
}

void Driver::handle(const Stop& stop) {
  asked_to_stop_ = stop.attempt;
  supervisor_.note_stop(SIGTERM, false, now());
  decide();
  answer_stop();
}

void Driver::handle(const Finish& finish) {
  show_status("");
  if (finish.report_here) report(finish);
  end(finish.cause);
}

void Driver::report(const Finish& finish) {
  const std::string text = render_report(finish.cause, plan_.options.max_restarts.value);
  report_ = text.empty() ? text : text.substr(0, text.size() - 1);
  for (const Failure& other : finish.others) report_ += "\n  also: " + describe(other);
  for (const std::string& remark : finish.remarks) report_ += "\n  " + remark;
}

void Driver::on_lost(const std::string& sentence) {
  if (ending_) return;
  say_error(sentence);
  Cause cause;
  cause.kind = Cause::Kind::agent_lost;
  link_lost_ = true;
  supervisor_.note_stop(SIGTERM, false, now());
  end(cause);
}

void Driver::wait_for_signals() {
  signal_watch_.async_wait(boost::asio::posix::descriptor_base::wait_read, [this](const error_code& error) {
    if (error) return;
    while (const auto event = signals_.read()) on_signal(*event);
    decide();
    wait_for_signals();
  });
}

void Driver::on_signal(const SignalEvent& event) {
  const std::vector<int> stops = stop_signals_of(plan_.options);
  if (std::find(stops.begin(), stops.end(), event.number) != stops.end()) {
    stop_on_signal(event.number);
  } else if (event.number == SIGCHLD) {
    workers_.look_for_stops();
    if (supervisor_.sweeping()) supervisor_.note_descendants(workers_.count_descendants());
  } else if (event.number == SIGTSTP) {
    supervisor_.note_signal(SIGTSTP);
    decide();
    stop_own_group();
    workers_.continue_all();
  } else if (event.number == SIGCONT) {
    workers_.continue_all();
  } else {
    supervisor_.note_signal(event.number);
  }
}

void Driver::stop_on_signal(int signal) {
  const bool repeated = last_stop_signal_ && now() - *last_stop_signal_ < k_same_signal_window;
  const bool first = !last_stop_signal_;
  last_stop_signal_ = now();
  if (repeated) return;
  if (!first) say(fmt::format("{} again on {}: killing what is left", signal_name(signal), plan_.host));
  supervisor_.note_stop(signal, /*hurry=*/true, now());
  if (!first) return;
  if (joined_ && !link_lost_) {
    link_->send(StopRequest{signal, plan_.host});
    return;
  }
  // Nobody knows of us yet: this process alone gives up.
  Cause cause;
  cause.kind = Cause::Kind::stopped_by_signal;
  cause.signal = signal;
  cause.host = plan_.host;
  report_ = describe(cause);
  end(cause);
}

void Driver::decide_soon() {
  if (std::exchange(decision_pending_, true)) return;
  boost::asio::post(context_, [this] {
    decision_pending_ = false;
    decide();
  });
}

void Driver::decide() {
  const auto actions = supervisor_.decide(now());
  for (const auto& action : actions) std::visit([this](const auto& each) { carry_out(each); }, action);
  arm_timer();
  if (!actions.empty()) decide_soon();
  answer_stop();
  leave_when_idle();
}

void Driver::carry_out(const act::Spawn& action) {
  if (workers_.start(action.worker)) supervisor_.note_spawned(action.worker);
}

void Driver::carry_out(const act::SignalWorker& action) { workers_.signal(action.worker, action.signal); }

void Driver::carry_out(const act::KillGroup& action) { workers_.kill_group(action.worker); }

void Driver::carry_out(const act::SignalDescendants& action) {
  supervisor_.note_descendants(workers_.signal_descendants(action.signal));
}

void Driver::carry_out(const act::ReportFailure& action) {
  describing_failure_ = true;
  const Attempt attempt = supervisor_.attempt();
  workers_.describe_failure(action.worker, *supervisor_.status(action.worker), [this, attempt](Failure failure) {
    describing_failure_ = false;
    if (!link_lost_) link_->send(AttemptFailed{attempt, std::move(failure)});
    decide_soon();
  });
}

void Driver::carry_out(const act::ReportSuccess&) {
  workers_.end_attempt();
  if (!link_lost_) link_->send(AttemptSucceeded{supervisor_.attempt()});
}

void Driver::carry_out(const act::ReportStopped&) { workers_.end_attempt(); }

// Stop is answered once, when nothing of the attempt is left and its failure, if any, has been told.
void Driver::answer_stop() {
  if (!asked_to_stop_ || !supervisor_.idle() || describing_failure_ || link_lost_) return;
  link_->send(Stopped{*std::exchange(asked_to_stop_, std::nullopt), {}});
}

void Driver::arm_timer() {
  const auto deadline = supervisor_.deadline();
  if (!deadline) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*deadline);
  timer_.async_wait([this](const error_code& error) {
    if (error) return;
    if (supervisor_.sweeping()) supervisor_.note_descendants(workers_.count_descendants());
    decide();
  });
}

void Driver::end(const Cause& cause) {
  if (!ending_) ending_ = cause;
  supervisor_.note_stop(SIGTERM, false, now());
  decide_soon();
}

void Driver::leave_when_idle() {
  if (!ending_ || leaving_ || !supervisor_.idle()) return;
  leaving_ = true;
  exit_code_ = exit_code_of(*ending_);
  workers_.when_drained(k_drain_limit, [this] {
    if (!report_.empty()) say_error(report_);
    workers_.dismiss_keeper();
    if (store_) store_->close();
    link_->close([this] { context_.stop(); });
  });
}

}  // namespace ddprun
