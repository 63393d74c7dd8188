#include "rendezvous/client_questions.hpp"

#include <algorithm>

namespace ddprun::rendezvous {

void ClientQuestions::ask(const StoreConnection& connection, std::set<ConnectionId> agents, TimePoint now) {
  questions_[connection] = {std::move(agents), now + k_limit};
}

std::optional<ClientVerdict> ClientQuestions::note(ConnectionId agent, const ClientVerdict& answer) {
  const auto found = questions_.find(answer.connection);
  if (found == questions_.end() || found->second.open.erase(agent) == 0) return std::nullopt;
  Question& question = found->second;
  question.best = std::max(question.best, answer.holder);
  if (question.best != Holder::own && !question.open.empty()) return std::nullopt;
  const ClientVerdict verdict{answer.connection, question.best};
  questions_.erase(found);
  return verdict;
}

std::vector<ClientVerdict> ClientQuestions::expire(TimePoint now) {
  std::vector<ClientVerdict> expired;
  std::erase_if(questions_, [&](const auto& each) {
    const bool over = now >= each.second.deadline;
    if (over) expired.push_back({each.first, each.second.best});
    return over;
  });
  return expired;
}

std::optional<TimePoint> ClientQuestions::deadline() const {
  std::optional<TimePoint> soonest;
  for (const auto& [connection, question] : questions_) {
    soonest = std::min(soonest.value_or(question.deadline), question.deadline);
  }
  return soonest;
}

}  // namespace ddprun::rendezvous
