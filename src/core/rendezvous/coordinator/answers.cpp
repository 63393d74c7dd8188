#include "rendezvous/coordinator/answers.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::rendezvous {

namespace {

// A look that is later than this was not late because others were busy.
constexpr Milliseconds k_own_sleep{5000};

Milliseconds between(TimePoint begin, TimePoint end) { return std::chrono::floor<Milliseconds>(end - begin); }

}  // namespace

std::optional<Milliseconds> Answers::note_heard(ConnectionId agent, TimePoint now) {
  Agent& known = agents_.try_emplace(agent, Agent{now, false, {}}).first->second;
  const Milliseconds silence = between(known.heard, now);
  known.heard = now;
  known.waited_since.reset();
  if (!look_at_) look_at_ = now + k_pause;
  return std::exchange(known.told, false) ? std::optional(silence) : std::nullopt;
}

std::optional<TimePoint> Answers::deadline() const { return agents_.empty() ? std::nullopt : look_at_; }

bool Answers::begin_look(TimePoint now) {
  if (agents_.empty() || !look_at_ || now < *look_at_) return false;
  if (now > *look_at_ + k_own_sleep) {
    for (auto& [agent, known] : agents_) {
      known.heard = std::max(known.heard, now);
      known.waited_since.reset();
    }
  }
  look_at_ = now + k_pause;
  return true;
}

std::vector<ConnectionId> Answers::asked() const {
  std::vector<ConnectionId> all;
  for (const auto& [agent, known] : agents_) all.push_back(agent);
  return all;
}

Milliseconds Answers::silence(ConnectionId agent, TimePoint now) const {
  const auto found = agents_.find(agent);
  return found == agents_.end() ? Milliseconds{0} : between(found->second.heard, now);
}

bool Answers::has_been_heard_since(ConnectionId agent, TimePoint moment) const {
  const auto found = agents_.find(agent);
  return found == agents_.end() || found->second.heard > moment;
}

bool Answers::takes_silence(ConnectionId agent) {
  const auto found = agents_.find(agent);
  return found != agents_.end() && !std::exchange(found->second.told, true);
}

Milliseconds Answers::note_waiting(ConnectionId agent, bool waits, TimePoint now) {
  const auto found = agents_.find(agent);
  if (found == agents_.end()) return Milliseconds{0};
  std::optional<TimePoint>& since = found->second.waited_since;
  if (!waits) since.reset();
  if (waits && !since) since = now;
  return since ? between(*since, now) : Milliseconds{0};
}

}  // namespace ddprun::rendezvous
