#include "ddprun/app/stop_signals.hpp"

#include <algorithm>
#include <csignal>

#include "ddprun/os/signals.hpp"

namespace ddprun {

std::vector<int> stop_signals_of(const Options& options) {
  if (!options.stop_signals.value.empty()) return options.stop_signals.value;
  return {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
}

std::vector<int> watched_signals_of(const Options& options) {
  std::vector<int> signals = handled_signals();
  for (const int signal : stop_signals_of(options)) {
    if (std::find(signals.begin(), signals.end(), signal) == signals.end()) signals.push_back(signal);
  }
  return signals;
}

}  // namespace ddprun
