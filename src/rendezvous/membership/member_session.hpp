// Messages that a joined member expects of its coordinator, and the deadline of each.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "base/duration.hpp"
#include "rendezvous/expected_messages.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

class MemberSession {
 public:
  struct Limits {
    Milliseconds start{0};   // from Join to what follows it
    Milliseconds answer{0};  // from a failure, an end of workers or a request to stop
  };
  explicit MemberSession(Limits limits) : limits_(limits) {}

  // Expectation of an answer within `limit` from now: without one the coordinator hangs, as its host lives.
  struct Expectation {
    Milliseconds limit;
    std::string otherwise;  // "sent nothing for 40 s"
  };
  // Returns nullopt if the expectation stays as before.
  std::optional<Expectation> note_sent(const AgentMessage& message);

  struct Received {
    bool answers = false;  // the expected message; else it may come at any time
    bool ends = false;     // no message follows it
  };
  // Notes a message, or returns why the connection has to end: "it sent a start unexpectedly".
  std::variant<Received, std::string> note_received(const CoordinatorMessage& message);

 private:
  Limits limits_;
  MemberState state_ = MemberState::joined;
  Milliseconds pause_{0};  // pause announced by the latest Start, between Stopped and the next
};

}  // namespace ddprun::rendezvous
