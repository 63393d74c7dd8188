// What a member that has joined expects of its coordinator: which message may come, and until when one has
// to.
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

  // Without an answer within `limit` from now the coordinator hangs: its host lives, as the kernel tells.
  struct Expectation {
    Milliseconds limit;
    std::string otherwise;  // "sent nothing for 40 s"
  };
  // Nothing: as before.
  std::optional<Expectation> note_sent(const AgentMessage& message);

  struct Received {
    bool answers = false;  // what was expected; else it may come at any time
    bool ends = false;     // nothing follows it
  };
  // Else why the connection has to end: "it sent a start unexpectedly".
  std::variant<Received, std::string> note_received(const CoordinatorMessage& message);

 private:
  Limits limits_;
  MemberState state_ = MemberState::joined;
  Milliseconds pause_{0};  // that the latest Start announced, between Stopped and the next
};

}  // namespace ddprun::rendezvous
