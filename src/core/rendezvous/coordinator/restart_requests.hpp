// Restarts that were asked for by --restart and --drain, until the next attempt.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"

namespace ddprun::rendezvous {

class RestartRequests {
 public:
  void begin_attempt() { *this = {}; }
  bool any() const { return any_; }
  // Notes a restart of the same nodes; `why` is one of the coordinator's changes.
  void note_restart(std::string why) {
    any_ = true;
    restart_ = std::move(why);
  }
  // Reports whether a restart of the same nodes was asked for, and nothing else has changed.
  bool explains(const std::vector<std::string>& changes) const {
    return restart_ && changes.size() == 1 && changes.front() == *restart_;
  }
  // Notes that the agent is let go once it has stopped its workers.
  void note_drain(AgentIndex agent, std::string why) {
    any_ = true;
    drains_[agent] = std::move(why);
  }
  void drop(AgentIndex agent) { drains_.erase(agent); }
  bool drains(AgentIndex agent) const { return drains_.contains(agent); }
  std::string take_drain(AgentIndex agent) { return std::move(drains_.extract(agent).mapped()); }
  std::set<AgentIndex> drained() const {
    std::set<AgentIndex> agents;
    for (const auto& [agent, why] : drains_) agents.insert(agent);
    return agents;
  }

 private:
  bool any_ = false;
  std::optional<std::string> restart_;
  std::map<AgentIndex, std::string> drains_;  // reason for each
};

}  // namespace ddprun::rendezvous
