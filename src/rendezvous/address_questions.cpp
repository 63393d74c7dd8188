#include "ddprun/rendezvous/address_questions.hpp"

#include <algorithm>

namespace ddprun {

void AddressQuestions::ask(const std::string& address, std::set<ConnectionId> agents, TimePoint now) {
  questions_[address] = {std::move(agents), now + k_limit};
}

std::optional<bool> AddressQuestions::note(ConnectionId agent, const std::string& address, bool own) {
  const auto found = questions_.find(address);
  if (found == questions_.end() || found->second.open.erase(agent) == 0) return std::nullopt;
  if (!own && !found->second.open.empty()) return std::nullopt;
  questions_.erase(found);
  return own;
}

std::vector<std::string> AddressQuestions::expire(TimePoint now) {
  std::vector<std::string> expired;
  for (const auto& [address, question] : questions_) {
    if (now >= question.deadline) expired.push_back(address);
  }
  for (const std::string& address : expired) questions_.erase(address);
  return expired;
}

std::optional<TimePoint> AddressQuestions::deadline() const {
  std::optional<TimePoint> soonest;
  for (const auto& [address, question] : questions_) {
    soonest = std::min(soonest.value_or(question.deadline), question.deadline);
  }
  return soonest;
}

}  // namespace ddprun
