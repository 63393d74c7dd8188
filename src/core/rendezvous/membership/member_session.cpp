#include "rendezvous/membership/member_session.hpp"

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

}  // namespace ddprun::rendezvous
