// One question to all agents about their workers.
// Rounds run one at a time; those who ask for the same meanwhile get the same answer.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "rendezvous/client_questions.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

class StatusRound {
 public:
  static constexpr Milliseconds k_limit{3000};  // an agent that has not answered by then is silent
  enum class Purpose { status, stacks, early_exit, hang, slow };

  void want(Purpose purpose) { wanted_[purpose]; }
  void want(Purpose purpose, ConnectionId asker);
  // Begins a round. Returns its question; nullopt while the one before is open, or if none is wanted.
  std::optional<StatusQuestion> begin(std::set<ConnectionId> agents, TimePoint now);
  Purpose purpose() const { return purpose_; }
  const std::set<ConnectionId>& askers() const { return askers_; }
  void note(ConnectionId agent, const StatusAnswer& answer);
  void drop(ConnectionId agent);
  // Reports whether all have answered, or the time is over: then take_answers() returns the answers by their
  // first rank, and those of agents that gave none are missing.
  bool is_over(TimePoint now) const { return deadline_ && (asked_.empty() || now >= *deadline_); }
  std::vector<status::NodeStatus> take_answers();
  const std::set<ConnectionId>& silent() const { return asked_; }
  std::optional<TimePoint> deadline() const { return deadline_; }

 private:
  int number_ = 0;
  std::map<Purpose, std::set<ConnectionId>> wanted_;  // askers of each purpose
  Purpose purpose_ = Purpose::status;
  std::set<ConnectionId> askers_, asked_;
  std::vector<status::NodeStatus> answers_;
  std::optional<TimePoint> deadline_;
};

}  // namespace ddprun::rendezvous
