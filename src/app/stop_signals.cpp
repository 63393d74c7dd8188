#include "stop_signals.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun {

std::vector<int> stop_signals_of(const Options& options) {
  std::vector<int> signals = options.stop_signals.value;
  if (signals.empty()) return {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  if (std::find(signals.begin(), signals.end(), SIGTERM) == signals.end()) signals.push_back(SIGTERM);
  return signals;
}

bool is_stop_signal(int number, const Options& options) {
  const std::vector<int> stops = stop_signals_of(options);
  return std::find(stops.begin(), stops.end(), number) != stops.end();
}

bool is_from_person(const SignalEvent& event, Scheduler scheduler) {
  const bool scheduled = scheduler != Scheduler::none && scheduler != Scheduler::manual;
  return event.is_from_key() || !scheduled || !event.from_above;
}

std::vector<int> watched_signals_of(const Options& options) {
  std::vector<int> signals = handled_signals();
  for (const int signal : stop_signals_of(options)) {
    if (std::find(signals.begin(), signals.end(), signal) == signals.end()) signals.push_back(signal);
  }
  return signals;
}

}  // namespace ddprun
