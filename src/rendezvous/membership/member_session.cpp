#include "rendezvous/membership/member_session.hpp"

namespace ddprun::rendezvous {

namespace {

template <class... Kinds, class Message>
bool is_any(const Message& message) {
  return (std::holds_alternative<Kinds>(message) || ...);
}

}  // namespace

std::optional<MemberSession::Expectation> MemberSession::note_sent(const AgentMessage& message) {
  state_ = after_sent(message, state_);
  if (is_any<Join>(message)) {
    return Expectation{limits_.start,
                       "accepted this node but sent no start within " + describe_duration(limits_.start)};
  }
  if (!is_any<AttemptFailed, Stopped, StopRequest>(message)) return std::nullopt;
  const Milliseconds limit = limits_.answer + (is_any<Stopped>(message) ? pause_ : Milliseconds{0});
  return Expectation{limit, "sent nothing for " + describe_duration(limit)};
}

std::variant<MemberSession::Received, std::string> MemberSession::note_received(
    const CoordinatorMessage& message) {
  if (judge(message, state_) == Reception::wrong) return describe_wrong(message);
  state_ = after_received(message, state_);
  if (const auto* start = std::get_if<Start>(&message)) pause_ = start->pause;
  return Received{
      !is_any<Probe, ClientQuestion, StatusQuestion, NodeShown, JobShown, Roster, Modules, Warn>(message),
      is_any<Finish, Refused>(message)};
}

}  // namespace ddprun::rendezvous
