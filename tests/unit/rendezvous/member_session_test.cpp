#include "rendezvous/membership/member_session.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace std::chrono_literals;

namespace {

const TimePoint k_now{1000s};

MemberSession joined() {
  MemberSession session({70s, 40s});
  session.note_sent(Join{});
  return session;
}

MemberSession::Received received(MemberSession& session, const CoordinatorMessage& message) {
  const auto result = session.note_received(message, k_now);
  REQUIRE(std::holds_alternative<MemberSession::Received>(result));
  return std::get<MemberSession::Received>(result);
}

Milliseconds limit_after(MemberSession& session, const AgentMessage& message) {
  const auto expectation = session.note_sent(message);
  return expectation ? expectation->limit : 0ms;
}

}  // namespace

TEST_CASE("a member that has joined waits for its start as long as others may join, and says so") {
  MemberSession session({70s, 40s});
  const auto expectation = session.note_sent(Join{});
  REQUIRE(expectation);
  CHECK(expectation->limit == 70s);
  CHECK(expectation->otherwise == "accepted this node but sent no start within 70 s");
}

TEST_CASE("a failure, a request to stop and the end of its workers are answered in time") {
  MemberSession session = joined();
  received(session, Start{});
  CHECK(limit_after(session, AttemptFailed{}) == 40s);
  CHECK(limit_after(session, StopRequest{}) == 40s);
  received(session, Stop{});
  CHECK(session.note_sent(Stopped{})->otherwise == "sent nothing for 40 s");
}

TEST_CASE("a success is not: others run on; nor is what answers a question") {
  MemberSession session = joined();
  CHECK_FALSE(session.note_sent(Probed{}));
  received(session, Start{});
  CHECK_FALSE(session.note_sent(AttemptSucceeded{}));
  CHECK_FALSE(session.note_sent(RosterTaken{}));
  CHECK_FALSE(session.note_sent(StatusAnswer{}));
}

TEST_CASE("the pause before the next start that was announced is waited for as well") {
  MemberSession session = joined();
  Start start;
  start.pause = 60s;
  received(session, start);
  CHECK(limit_after(session, AttemptFailed{}) == 40s);
  received(session, Stop{});
  CHECK(limit_after(session, Stopped{}) == 100s);
}

TEST_CASE("what may come at any time is no answer") {
  MemberSession session = joined();
  CHECK_FALSE(received(session, Probe{}).answers);
  CHECK_FALSE(received(session, Roster{}).answers);
  CHECK_FALSE(received(session, AliveQuestion{}).answers);
  CHECK_FALSE(received(session, ClientQuestion{}).answers);
  CHECK_FALSE(received(session, StatusQuestion{}).answers);
  CHECK_FALSE(received(session, NodeShown{}).answers);
  CHECK_FALSE(received(session, JobShown{}).answers);
  CHECK_FALSE(received(session, RestartReply{}).answers);
  CHECK_FALSE(received(session, ClockReply{}).answers);
  CHECK_FALSE(received(session, CheckpointOrder{}).answers);
  CHECK(received(session, Standby{}).answers);
  CHECK(received(session, Start{}).answers);
  CHECK_FALSE(received(session, Warn{}).answers);
  CHECK(received(session, Stop{}).answers);
}

TEST_CASE("after a refusal or the end nothing comes") {
  for (const CoordinatorMessage& message : {CoordinatorMessage{Refused{}}, CoordinatorMessage{Finish{}}}) {
    MemberSession session = joined();
    const auto last = received(session, message);
    CHECK(last.answers);
    CHECK(last.ends);
  }
  MemberSession session = joined();
  CHECK_FALSE(received(session, Start{}).ends);
}

TEST_CASE("a message that does not fit ends the connection and changes nothing") {
  MemberSession session = joined();
  received(session, Start{});
  CHECK(std::get<std::string>(session.note_received(Start{}, k_now)) == "it sent a start unexpectedly");
  CHECK(received(session, Stop{}).answers);
}

TEST_CASE(
    "a coordinator whose answer is overdue hangs, unless it has said nothing at all for half a minute") {
  MemberSession session = joined();
  received(session, Start{});
  CHECK(session.silence(k_now + 29s) == 29s);
  CHECK(session.end_of_overdue(k_now + 29s) == ConnectionEnd::hanging);
  CHECK(session.end_of_overdue(k_now + 30s) == ConnectionEnd::broken);
}

TEST_CASE("a member whose workers have succeeded is idle until the next start or stop") {
  MemberSession session = joined();
  received(session, Start{});
  CHECK_FALSE(session.is_idle());
  session.note_sent(AttemptSucceeded{});
  received(session, AliveQuestion{});
  CHECK(session.is_idle());
  received(session, Stop{});
  CHECK_FALSE(session.is_idle());
}

TEST_CASE("a member waits for the end without a limit while the last checkpoint is being flushed") {
  MemberSession session = joined();
  received(session, Start{});
  received(session, Stop{});
  session.note_sent(Stopped{});
  CHECK_FALSE(received(session, CheckpointOrder{}).answers);
  CHECK_FALSE(session.is_idle());
  CheckpointOrder last;
  last.order.ending = true;
  CHECK(received(session, last).answers);
  CHECK(session.is_idle());
  CHECK_FALSE(session.note_sent(StopRequest{}));
  CHECK_FALSE(session.expectation());
}

TEST_CASE("a spare is idle until a start") {
  MemberSession session = joined();
  received(session, Standby{});
  CHECK(session.is_idle());
  received(session, Roster{});
  CHECK(session.is_idle());
  received(session, Start{});
  CHECK_FALSE(session.is_idle());
}
