#include "event_loop/signal_watch.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <utility>

#include "event_loop/handlers.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"

namespace ddprun::event_loop {

namespace {

using boost::asio::posix::descriptor_base;
using boost::system::error_code;

constexpr Milliseconds k_busy_look{2};
constexpr int k_most_busy_looks = 100;

}  // namespace

SignalWatch::SignalWatch(boost::asio::io_context& context, const std::vector<int>& signals,
                         os::ChildGroup place)
    : context_(context),
      source_(signals),
      canary_(place),
      source_watch_(context, os::duplicate(source_.descriptor().get()).release()),
      canary_watch_(context, os::duplicate(canary_.descriptor().get()).release()),
      timer_(context) {}

void SignalWatch::start(Hooks hooks) {
  hooks_ = std::move(hooks);
  wait_for_signals();
  wait_for_canary();
}

void SignalWatch::wait_for_signals() {
  source_watch_.async_wait(descriptor_base::wait_read, [this](const error_code& error) {
    if (is_cancelled(error, "signals")) return;
    wait_for_signals();
    while (const auto event = source_.read()) hooks_.on_signal(*event);
    settle();
  });
}

void SignalWatch::wait_for_canary() {
  canary_watch_.async_wait(descriptor_base::wait_read, [this](const error_code& error) {
    if (error) return;
    const auto first = canary_.read();
    if (!first) return;  // the canary was killed: signals are passed on as without it
    ledger_.note_canary(*first, os::now());
    wait_for_canary();
    settle();
  });
}

void SignalWatch::judge(int number, lifecycle::SignalWay way, bool maybe_tree) {
  ledger_.note_signal(number, way, maybe_tree, os::now());
  boost::asio::post(context_, [this] { settle(); });
}

void SignalWatch::note_reached(int number) { ledger_.note_canary(number, os::now()); }

void SignalWatch::note_worker() { ledger_.note_worker(os::now()); }

void SignalWatch::settle() {
  while (const auto number = canary_.read()) ledger_.note_canary(*number, os::now());
  const auto due = ledger_.deadline();
  if (due && *due <= os::now() && looks_at_busy_canary_ < k_most_busy_looks && canary_.is_behind()) {
    ++looks_at_busy_canary_;
    return arm(os::now() + k_busy_look);
  }
  looks_at_busy_canary_ = 0;
  for (const auto& verdict : ledger_.decide(os::now())) hooks_.on_verdict(verdict);
  if (const auto next = ledger_.deadline()) arm(*next);
  hooks_.on_done();
}

void SignalWatch::arm(TimePoint when) {
  net::call_at(timer_, when, [this] { settle(); });
}

void SignalWatch::leave() {
  source_watch_.close();
  canary_watch_.close();
  timer_.cancel();
  canary_.dismiss();
  source_.keep_blocked();
}

std::vector<int> stop_signals_of(const options::Options& options) {
  std::vector<int> signals = options.stop_signals.value;
  if (signals.empty()) return {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  if (std::find(signals.begin(), signals.end(), SIGTERM) == signals.end()) signals.push_back(SIGTERM);
  return signals;
}

bool is_stop_signal(int number, const options::Options& options) {
  const std::vector<int> stops = stop_signals_of(options);
  return std::find(stops.begin(), stops.end(), number) != stops.end();
}

bool is_from_person(const os::SignalEvent& event, facts::Scheduler scheduler) {
  const bool scheduled = scheduler != facts::Scheduler::none && scheduler != facts::Scheduler::manual;
  return event.is_from_key() || !scheduled || !event.from_above;
}

std::vector<int> watched_signals_of(const options::Options& options) {
  std::vector<int> signals = os::handled_signals();
  for (const int signal : stop_signals_of(options)) {
    if (std::find(signals.begin(), signals.end(), signal) == signals.end()) signals.push_back(signal);
  }
  return signals;
}

}  // namespace ddprun::event_loop
