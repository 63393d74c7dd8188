#include "rendezvous/coordinator/answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
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

void Hangs::note(AgentIndex agent, const Quiet& quiet) {
  if (quiet.quiet) {
    quiet_[agent] = quiet.since;
  } else {
    quiet_.erase(agent);
    told_ = false;
  }
}

bool Hangs::takes(const EarlyExit& early) {
  if (early_ && early_->expired >= early.expired) return false;
  early_ = early;
  return true;
}

std::string Hangs::why_quiet() const {
  const auto shortest = std::ranges::min_element(quiet_, {}, [](const auto& each) { return each.second; });
  return "no rank has shown a sign of life for " + describe_seconds(shortest->second);
}

std::string Hangs::why_early() const {
  return fmt::format("rank {} exited with code 0 {} ago", early_->rank.value,
                     describe_seconds(early_->since));
}

}  // namespace ddprun::rendezvous
