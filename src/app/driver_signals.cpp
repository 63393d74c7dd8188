// Signals to an agent, from outside and from the ddprun that started it: which stop the job, which the
// workers get.
#include <fmt/format.h>

#include <csignal>

#include "ddprun/os/terminal.hpp"
#include "ddprun/plan/open_mpi_settings.hpp"
#include "ddprun/supervise/signal_ledger.hpp"
#include "driver.hpp"
#include "log.hpp"
#include "stop_signals.hpp"

namespace ddprun {

namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

void Driver::watch_signals() {
  SignalWatch::Hooks hooks;
  hooks.on_signal = [this](const SignalEvent& event) { on_signal(event); };
  hooks.on_verdict = [this](const SignalLedger::Verdict& verdict) { on_verdict(verdict); };
  hooks.on_done = [this] { decide(); };
  signals_.start(std::move(hooks));
}

void Driver::on_signal(const SignalEvent& event) {
  if (event.number == SIGHUP && workers_.is_hung_up_with_worker()) signals_.note_reached(SIGHUP);
  if (event.number == SIGCHLD) {
    workers_.look_for_ends();
    workers_.look_for_stops();
    if (supervisor_.sweeping()) supervisor_.note_descendants(workers_.count_descendants());
  } else if (is_stop_signal(event.number, node_->options)) {
    const bool by_person = is_from_person(event, node_->allocation.scheduler.value);
    note_stop_signal(event.number, SignalWay::own, event.from_above, by_person);
  } else if (event.number == SIGTSTP && can_be_continued()) {
    stop_at_key();
  } else if (is_passed_on(event)) {
    signals_.judge(event.number, SignalWay::own, event.from_above);
  }
}

void Driver::on_told_signal(const lifeline::Signal& signal) {
  explained_ = explained_ || signal.explained;
  if (is_stop_signal(signal.number, node_->options)) {
    note_stop_signal(signal.number, SignalWay::front_end, signal.whole_tree, signal.hurry);
  } else if (signal.number != SIGCHLD) {
    signals_.judge(signal.number, SignalWay::front_end, signal.whole_tree);
  }
  decide();
}

// ^Z. The workers' groups are orphaned, and there the kernel drops SIGTSTP, so they get SIGSTOP. SIGCONT,
// which continues us, is passed on to them.
void Driver::stop_at_key() {
  workers_.stop_all();
  stop_own_group();
}

void Driver::note_stop_signal(int signal, SignalWay way, bool maybe_tree, bool by_person) {
  if (leaving_) return hurry();  // only output is still to be written
  const bool first = !stop_signal_;
  if (first) {
    stop_signal_ = signal;
    last_stop_signal_ = now();
    supervisor_.note_stop(signal, /*hurry=*/false, now(), Supervisor::Delivery::undecided);
    tell_early_kill();
  }
  if (first || signal != *stop_signal_ || way != SignalWay::own) signals_.judge(signal, way, maybe_tree);
  const bool again = !first && by_person && now() - last_stop_signal_ >= k_same_signal_window;
  if (!again) return;
  last_stop_signal_ = now();
  say(fmt::format("{} again on {}: killing the remaining processes", signal_name(signal), node_->host));
  supervisor_.note_stop(signal, /*hurry=*/true, now());
}

// At once: there is nobody left to say it afterwards.
void Driver::tell_early_kill() const {
  if (node_->rendezvous.agent.value != 0) return;
  if (const auto notice = find_early_kill(snapshot_, node_->options.shutdown_timeout.value))
    say_notice(notice->what, notice->hint);
}

void Driver::on_verdict(const SignalLedger::Verdict& verdict) {
  if (verdict.number == SIGCONT) {
    workers_.note_continued();
    if (verdict.pass_on) workers_.continue_all();
    return;
  }
  supervisor_.note_delivery(verdict.number, verdict.pass_on);
  if (verdict.number == stop_signal_ && !stop_requested_) request_stop(verdict.number, verdict.whole_tree);
}

// All hosts are to stop; only this one where nobody knows of it yet.
void Driver::request_stop(int signal, bool whole_tree) {
  stop_requested_ = true;
  if (joined_ && !link_lost_) {
    link_->send(StopRequest{signal, node_->host, whole_tree});
    return;
  }
  end_by_own_signal(signal);
}

}  // namespace ddprun
