// Messages that a joined member expects of its coordinator, and the deadline of each.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "base/duration.hpp"
#include "rendezvous/connection_end.hpp"
#include "rendezvous/expected_messages.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

class MemberSession {
 public:
  struct Limits {
    Milliseconds start{0};   // from Join to what follows it
    Milliseconds answer{0};  // from a failure, an end of workers or a request to stop
  };
  // The coordinator asks each agent every few seconds whether it runs (coordinator/answers.hpp). After this
  // long without a word it is said that it does not answer.
  static constexpr Milliseconds k_silence{30000};
  // Once the workers here have ended with success, and on a spare, it is lost. Others may train for longer,
  // so that this is longer than what the coordinator waits for an agent.
  static constexpr Milliseconds k_silence_limit{300000};
  explicit MemberSession(Limits limits) : limits_(limits) {}

  // Expectation of an answer within `limit` from now: without one the coordinator hangs, as its host lives.
  struct Expectation {
    Milliseconds limit;
    std::string otherwise;  // "sent nothing for 40 s"
  };
  // Returns nullopt if the expectation stays as before.
  std::optional<Expectation> note_sent(const AgentMessage& message);
  // Notes the time that the workers of all hosts have to stop: answers that follow their stop may take that
  // much longer. Returns true if it is new.
  bool takes_grace(Milliseconds grace);
  // Returns the answer that is still due.
  std::optional<Expectation> expectation() const;

  struct Received {
    bool answers = false;  // the expected message; else it may come at any time
    bool ends = false;     // no message follows it
  };
  // Notes a message, or returns why the connection has to end: "it sent a start unexpectedly".
  std::variant<Received, std::string> note_received(const CoordinatorMessage& message, TimePoint now);

  // Reports whether no worker runs here until the coordinator says more: they have succeeded, it is a spare,
  // or the end waits for the last checkpoint to be flushed.
  bool is_idle() const { return succeeded_ || stands_by_ || flushes_; }
  Milliseconds silence(TimePoint now) const {
    return std::chrono::floor<Milliseconds>(now - heard_.value_or(now));
  }
  // Decides how the coordinator is lost if its answer is overdue: broken if it sends nothing at all, as its
  // reaper ends a coordinator that does not run.
  ConnectionEnd end_of_overdue(TimePoint now) const {
    return silence(now) >= k_silence ? ConnectionEnd::broken : ConnectionEnd::hanging;
  }

 private:
  Limits limits_;
  MemberState state_ = MemberState::joined;
  bool succeeded_ = false, stands_by_ = false, waits_ = false, flushes_ = false;
  Milliseconds grace_{0}, waited_pause_{0};
  std::optional<TimePoint> heard_;
  Milliseconds pause_{0};  // pause announced by the latest Start, between Stopped and the next
};

}  // namespace ddprun::rendezvous
