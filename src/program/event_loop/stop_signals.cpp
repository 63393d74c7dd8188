#include "event_loop/stop_signals.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun::event_loop {

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
