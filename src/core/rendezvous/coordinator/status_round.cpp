#include "rendezvous/coordinator/status_round.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ddprun::rendezvous {

// Adds the asker to a round in progress with the same purpose, whose answer it gets; else notes a further
// round.
void StatusRound::want(Purpose purpose, ConnectionId asker) {
  (deadline_ && purpose == purpose_ ? askers_ : wanted_[purpose]).insert(asker);
}

void StatusRound::drop(ConnectionId agent) {
  asked_.erase(agent);
  askers_.erase(agent);
  for (auto& [purpose, askers] : wanted_) askers.erase(agent);
}

std::optional<StatusQuestion> StatusRound::begin(std::set<ConnectionId> agents, TimePoint now) {
  if (deadline_ || wanted_.empty()) return std::nullopt;
  auto next = wanted_.extract(wanted_.begin());
  purpose_ = next.key();
  askers_ = std::move(next.mapped());
  asked_ = std::move(agents);
  answers_.clear();
  deadline_ = now + k_limit;
  return StatusQuestion{++number_, purpose_ != Purpose::status};
}

void StatusRound::note(ConnectionId agent, const StatusAnswer& answer) {
  if (deadline_ && answer.question == number_ && asked_.erase(agent) > 0) answers_.push_back(answer.status);
}

std::vector<status::NodeStatus> StatusRound::take_answers() {
  deadline_.reset();
  const auto first_rank = [](const status::NodeStatus& node) {
    return node.workers.empty() ? std::numeric_limits<int>::max() : node.workers.front().rank;
  };
  std::ranges::stable_sort(answers_, {}, first_rank);
  return std::exchange(answers_, {});
}

}  // namespace ddprun::rendezvous
