#include "rendezvous/expected_messages.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

using State = CoordinatorState;

constexpr State k_states[] = {State::gathering, State::probing,  State::opening,
                              State::running,   State::stopping, State::finished};

std::string letter(Reception reception) { return {"TLW"[static_cast<int>(reception)]}; }

// A letter a state: T taken, L late, W wrong.
std::string judged(const AgentMessage& message) {
  std::string text;
  for (const State state : k_states) text += letter(judge(message, true, state, {3}));
  return text;
}

std::string judged(const CoordinatorMessage& message) {
  std::string text;
  for (const auto state :
       {MemberState::joined, MemberState::running, MemberState::asked, MemberState::stopped}) {
    text += letter(judge(message, state));
  }
  return text;
}

}  // namespace

TEST_CASE("what tells of an attempt fits only while it runs or is being stopped") {
  CHECK(judged(AttemptSucceeded{{3}}) == "WWWTTL");
  CHECK(judged(AttemptFailed{{3}, {}}) == "WWWTTL");
  CHECK(judged(Stopped{{3}, {}, {}}) == "WWWWTL");
}

TEST_CASE("a warning of the job's end comes to workers that run") { CHECK(judged(Warn{{3}, 10}) == "WTWW"); }

TEST_CASE("an attempt that is over is late, one that has not begun is wrong") {
  CHECK(judged(AttemptSucceeded{{2}}) == "LLLLLL");
  CHECK(judged(Stopped{{2}, {}, {}}) == "LLLLLL");
  CHECK(judged(AttemptFailed{{4}, {}}) == "WWWWWW");
}

TEST_CASE(
    "a signal, an event, a question about the job and an answer about a connection or a status may come at "
    "any time") {
  CHECK(judged(StopRequest{15, "n1", false}) == "TTTTTL");
  CHECK(judged(Happened{}) == "TTTTTT");
  CHECK(judged(ClientVerdict{}) == "TTTTTL");
  CHECK(judged(StatusAnswer{}) == "TTTTTL");
  CHECK(judged(Stuck{{3}}) == "WWWWTL");
  CHECK(judged(JobQuestion{}) == "TTTTTL");
  CHECK(judged(RestartRequest{}) == "TTTTTL");
  CHECK(judged(RestartReply{}) == "TTTT");
  CHECK(judged(Looked{{3}}) == "WWWWTL");
  CHECK(judged(Look{}) == "TWWT");
  CHECK(judged(AgentMessage(ProfileRequest{})) == "TTTTTL");
  CHECK(judged(CoordinatorMessage(ProfileRequest{})) == "TTTT");
  CHECK(judged(AgentMessage(ProfilePart{})) == "TTTTTL");
  CHECK(judged(ClockQuestion{}) == "TTTTTL");
  CHECK(judged(ClockReply{}) == "TTTT");
  CHECK(judged(CollectivesSeen{{3}, 0, {}}) == "WWWTTL");
  CHECK(judged(CheckpointsHeld{}) == "TTTTTL");
  CHECK(judged(CheckpointOrder{}) == "TTTT");
  CHECK(judged(Alive{}) == "TTTTTL");
  CHECK(judged(AliveQuestion{}) == "TTTT");
  CHECK(judged(Probed{}) == "WTLLLL");
}

TEST_CASE("before it has joined a connection may join or carry output, afterwards neither") {
  const AgentMessage output = lifeline::Output{lifeline::Stream::output, "n1"};
  for (const State state : k_states) {
    CHECK(judge(Join{}, false, state, {0}) == Reception::taken);
    CHECK(judge(output, false, state, {0}) == Reception::taken);
    CHECK(judge(Join{}, true, state, {0}) == Reception::wrong);
    CHECK(judge(output, true, state, {0}) == Reception::wrong);
    CHECK(judge(StopRequest{15, "n1", false}, false, state, {0}) == Reception::wrong);
  }
}

TEST_CASE("a member takes a start, then a stop, then another start") {
  CHECK(judged(Start{}) == "TWWT");
  CHECK(judged(Stop{}) == "WTWW");
  CHECK(judged(Refused{}) == "TWWW");
  CHECK(judged(Probe{}) == "TWWT");  // another node may take part in the next attempt
  CHECK(judged(Finish{}) == "TTTT");
  MemberState state = MemberState::joined;
  for (int attempt = 0; attempt < 3; ++attempt) {
    CHECK(judge(Start{}, state) == Reception::taken);
    state = after_received(Start{}, state);
    state = after_sent(AttemptFailed{}, state);
    state = after_received(StatusQuestion{}, state);
    CHECK(judge(Stop{}, state) == Reception::taken);
    state = after_received(Stop{}, state);
    state = after_sent(Stopped{}, state);
  }
}

TEST_CASE("a sentence names what was sent") {
  CHECK(describe_wrong(AgentMessage(AttemptSucceeded{})) == "it sent a success unexpectedly");
  CHECK(describe_wrong(CoordinatorMessage(Stop{})) == "it sent a stop unexpectedly");
}
