// Agents whose ranks show no sign of life in an attempt, and the first early exit.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

class Hangs {
 public:
  void begin_attempt() { *this = {}; }
  void note(AgentIndex agent, const Quiet& quiet);
  bool is_quiet(AgentIndex agent) const { return quiet_.contains(agent); }
  // Returns true once in a silence: it is remembered whether that of all of them has been reported.
  bool takes_silence() { return !std::exchange(told_, true); }
  // Returns true for the first word of an attempt's early exits, and of one that has lasted too long.
  bool takes(const EarlyExit& early);
  const std::optional<EarlyExit>& early_exit() const { return early_; }
  std::string why_quiet() const;  // "no rank has shown a sign of life for 20s"; one is quiet
  std::string why_early() const;  // "rank 3 exited with code 0 60s ago"

 private:
  std::map<AgentIndex, Milliseconds> quiet_;  // duration of each silence
  bool told_ = false;
  std::optional<EarlyExit> early_;
};

}  // namespace ddprun::rendezvous
