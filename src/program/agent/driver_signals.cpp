// Signals to an agent, from outside and from the ddprun that started it: some stop the job, the others go on
// to the workers.

#include <algorithm>
#include <csignal>

#include "agent/driver.hpp"
#include "console/log.hpp"
#include "event_loop/stop_signals.hpp"
#include "lifecycle/signal_ledger.hpp"
#include "os/clock.hpp"
#include "os/terminal/terminal.hpp"
#include "plan/open_mpi_settings.hpp"
#include "report/report.hpp"

namespace ddprun::agent {

void Driver::watch_signals() {
  event_loop::SignalWatch::Hooks hooks;
  hooks.on_signal = [this](const os::SignalEvent& event) { on_signal(event); };
  hooks.on_verdict = [this](const lifecycle::SignalLedger::Verdict& verdict) { on_verdict(verdict); };
  hooks.on_done = [this] { decide(); };
  signals_.start(std::move(hooks));
}

void Driver::on_signal(const os::SignalEvent& event) {
  if (event.number == SIGHUP && workers_.is_hung_up_with_worker()) signals_.note_reached(SIGHUP);
  if (event.number == SIGCHLD) {
    workers_.answer_held_signals();
    workers_.look_for_ends();
    workers_.look_for_stops();
    if (supervisor_.sweeping()) supervisor_.note_descendants(workers_.count_descendants());
  } else if (event_loop::is_stop_signal(event.number, plans_.node->options)) {
    if (!stop_sender_ && event.number == SIGINT && event.is_from_key())
      console::say(report::describe_wait_after_key(plans_.node->options.shutdown_timeout.value));
    if (!stop_sender_) ask_for_grace();
    if (!stop_sender_) stop_sender_ = os::describe_sender(event);
    const bool by_person = event_loop::is_from_person(event, plans_.node->allocation.scheduler.value);
    carry_out(life_.on_stop_signal(event.number, lifecycle::SignalWay::own, event.from_above, by_person,
                                   os::now()));
  } else if (event.number == SIGTSTP && os::can_be_continued()) {
    stop_at_key();
  } else if (os::is_passed_on(event)) {
    signals_.judge(event.number, lifecycle::SignalWay::own, event.from_above);
  }
}

void Driver::on_told_signal(const rendezvous::lifeline::Signal& signal) {
  const std::vector<int> watched = event_loop::watched_signals_of(plans_.node->options);
  if (std::find(watched.begin(), watched.end(), signal.number) == watched.end()) return;
  if (signal.explained) life_.note_explained();
  if (event_loop::is_stop_signal(signal.number, plans_.node->options)) {
    carry_out(life_.on_stop_signal(signal.number, lifecycle::SignalWay::front_end, signal.whole_tree,
                                   signal.hurry, os::now()));
  } else if (signal.number != SIGCHLD) {
    signals_.judge(signal.number, lifecycle::SignalWay::front_end, signal.whole_tree);
  }
  decide();
}

// Stops the workers at ^Z. Their groups are orphaned, and there the kernel drops SIGTSTP, so they get
// SIGSTOP. SIGCONT, which continues us, is passed on to them.
void Driver::stop_at_key() {
  workers_.stop_all();
  os::stop_own_group();
}

// Reports at once that the scheduler kills early: no process is left to report it afterwards.
void Driver::tell_early_kill() const {
  if (plans_.node->rendezvous.agent.value != 0) return;
  console::say_notice(plan::find_early_kill(snapshot_, plans_.node->options.shutdown_timeout.value));
}

void Driver::on_verdict(const lifecycle::SignalLedger::Verdict& verdict) {
  if (verdict.number == SIGCONT) {
    workers_.note_continued();
    if (verdict.pass_on) workers_.continue_all();
    return;
  }
  supervisor_.note_delivery(verdict.number, verdict.pass_on);
  carry_out(life_.on_verdict(verdict));
}

}  // namespace ddprun::agent
