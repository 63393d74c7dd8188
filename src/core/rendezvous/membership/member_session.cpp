#include "rendezvous/membership/member_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "rendezvous/host_limits.hpp"

namespace ddprun::rendezvous {

namespace {

template <class... Kinds, class Message>
bool is_any(const Message& message) {
  return (std::holds_alternative<Kinds>(message) || ...);
}

// Reports whether a message answers one of ours: messages that may come at any time do not.
bool answers(const CoordinatorMessage& message) {
  if (const auto* told = std::get_if<CheckpointOrder>(&message)) return told->order.ending;
  return !is_any<Probe, ClientQuestion, StatusQuestion, NodeShown, JobShown, Roster, Modules, AliveQuestion,
                 Warn, RestartReply, ProfileRequest, ProfilePart, ClockReply>(message);
}

}  // namespace

std::optional<MemberSession::Expectation> MemberSession::note_sent(const AgentMessage& message) {
  state_ = after_sent(message, state_);
  succeeded_ |= is_any<AttemptSucceeded>(message);
  if (is_any<Join>(message)) {
    return Expectation{limits_.start,
                       "accepted this node but sent no start within " + describe_duration(limits_.start)};
  }
  if (flushes_ || !is_any<AttemptFailed, Stopped, StopRequest>(message)) return std::nullopt;
  waits_ = true;
  if (is_any<Stopped>(message)) waited_pause_ = pause_;
  return expectation();
}

std::optional<MemberSession::Expectation> MemberSession::expectation() const {
  if (!waits_) return std::nullopt;
  const Milliseconds limit = limits_.answer + waited_pause_ + grace_;
  return Expectation{limit, "sent nothing for " + describe_duration(limit)};
}

bool MemberSession::takes_grace(Milliseconds grace) {
  if (grace <= grace_) return false;
  grace_ = grace;
  return true;
}

std::variant<MemberSession::Received, std::string> MemberSession::note_received(
    const CoordinatorMessage& message, TimePoint now) {
  heard_ = now;
  if (judge(message, state_) == Reception::wrong) return describe_wrong(message);
  state_ = after_received(message, state_);
  if (answers(message)) waits_ = false, waited_pause_ = Milliseconds{0};
  if (is_any<Start, Stop>(message)) succeeded_ = false;
  if (is_any<Start, Standby>(message)) stands_by_ = is_any<Standby>(message);
  if (is_any<CheckpointOrder>(message)) flushes_ = answers(message);
  if (const auto* start = std::get_if<Start>(&message)) pause_ = start->pause;
  return Received{answers(message), is_any<Finish, Refused>(message)};
}

NextCoordinator::NextCoordinator(Milliseconds host_timeout) : host_timeout_(host_timeout) {}

void NextCoordinator::note_joined(const std::string& address, int port) {
  searches_ = false;
  coordinator_.reset();
  if (!roster_) return;
  const auto is_it = [&](const Successor& each) {
    return each.port == port && std::ranges::find(each.addresses, address) != each.addresses.end();
  };
  const auto found = std::ranges::find_if(roster_->successors, is_it);
  if (found != roster_->successors.end()) coordinator_ = found->place;
}

bool NextCoordinator::note(const Roster& roster) {
  const bool is_new =
      !roster_ || roster_->number() != roster.number() || roster_->coordinator != roster.coordinator;
  roster_ = roster;
  coordinator_ = roster.coordinator;
  searches_ = false;
  lost_.clear();
  ended_.clear();
  first_.reset();
  last_.reset();
  return is_new;
}

std::optional<std::string> NextCoordinator::note_lost(const std::string& what, ConnectionEnd end,
                                                      bool listens, TimePoint now) {
  // The workers of one that hangs run on, as long as they are not stopped there.
  if (end == ConnectionEnd::hanging || !roster_) return what;
  if (coordinator_) {
    lost_.insert(*coordinator_);
    if (end == ConnectionEnd::ended) ended_.insert(*coordinator_);
  }
  coordinator_.reset();
  listens_ = listens;
  last_ = Loss{what, end, now};
  if (!first_) first_ = last_;
  if (now >= gives_up_at()) return describe_failed_search();
  if (candidates().empty() && !turn()) return what;  // no agent is left
  searches_ = true;
  return std::nullopt;
}

std::vector<Successor> NextCoordinator::candidates() const {
  std::vector<Successor> all;
  if (!roster_) return all;
  for (const Successor& each : roster_->successors) {
    if (each.place != roster_->own && !is_lost(each.place)) all.push_back(each);
  }
  return all;
}

// Returns nullopt if this agent never takes over.
std::optional<TimePoint> NextCoordinator::turn() const {
  if (!listens_) return std::nullopt;
  // All see at the same moment that a process has ended; after silence another one may have been earlier.
  TimePoint turn = last_->at + (last_->end == ConnectionEnd::ended ? Milliseconds{0} : k_finding);
  for (const Successor& each : roster_->successors) {
    if (is_lost(each.place)) continue;
    if (each.place == roster_->own) return turn;
    turn += successor_turn(host_timeout_);
  }
  return std::nullopt;
}

TimePoint NextCoordinator::gives_up_at() const { return first_->at + longest_search(host_timeout_); }

std::string NextCoordinator::describe_failed_search() const {
  std::vector<std::string> hosts;
  for (const Successor& each : candidates()) hosts.push_back(each.host);
  if (hosts.empty()) return first_->what;
  return fmt::format("{}; {} did not take over", first_->what, fmt::join(hosts, ", "));
}

NextCoordinator::Search NextCoordinator::next(TimePoint now) const {
  std::vector<Successor> others = candidates();
  std::optional<TimePoint> own_turn = turn();
  // An own turn that has come already proves nothing: this agent may have been slow to notice, or to end its
  // workers.
  if (own_turn && !others.empty()) own_turn = std::max(*own_turn, now + k_look);
  return {std::move(others), std::chrono::ceil<Milliseconds>(gives_up_at() - now), own_turn};
}

Survivor NextCoordinator::survivor() const {
  Survivor survivor{*roster_, {}};
  for (const AgentIndex place : ended_) survivor.ended.push_back(place.value);
  return survivor;
}

void NextCoordinator::inherit(CoordinatorSettings& settings) const {
  settings.own = roster_->own;
  settings.launch_id = roster_->launch_id;
  settings.when_alone.reset();
  settings.takeover = Takeover{first_->what, host_timeout_};
}

}  // namespace ddprun::rendezvous
