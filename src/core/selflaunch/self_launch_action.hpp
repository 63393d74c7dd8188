// Actions that the state machine of the self-launch returns, to be carried out in order.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "base/duration.hpp"
#include "rendezvous/lifeline.hpp"

namespace ddprun::selflaunch {

// Starts the process of a remote launcher; a program that cannot be run is an end, too.
struct Start {
  std::size_t remote_launcher;  // index into SelfLaunchPlan::commands
};
struct SignalRemoteLauncher {  // with all processes of its session
  std::size_t remote_launcher;
  int number;
};
struct SignalAgents {  // all that are connected
  rendezvous::lifeline::Signal signal;
};
// Asks whether this own signal has to be passed on (lifecycle/signal_ledger.hpp); answer with on_verdict.
struct Judge {
  int number;
  bool from_above;
};
struct Say {
  enum class Level { detail, normal, error };
  Level level = Level::normal;
  std::string text;
  std::string hint{};
  friend bool operator==(const Say&, const Say&) = default;
};
// Wait until all output is written, at most this long; answer with on_drained. A second one replaces the
// first, whose answer may still come.
struct Drain {
  std::optional<Milliseconds> limit;
};
// Answer with on_losses: what was lost of the output, everything that was said included.
struct CountLosses {};
// Always the last action: end with this exit code.
struct Leave {
  int code;
};

using SelfLaunchAction =
    std::variant<Start, SignalRemoteLauncher, SignalAgents, Judge, Say, Drain, CountLosses, Leave>;

}  // namespace ddprun::selflaunch
