// A joined member: messages that it expects of its coordinator, and its course when it has lost it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "rendezvous/coordinator_settings.hpp"
#include "rendezvous/expected_messages.hpp"
#include "rendezvous/host_limits.hpp"
#include "rendezvous/message.hpp"
#include "rendezvous/status_messages.hpp"

namespace ddprun::rendezvous {

// Messages that a joined member expects of its coordinator, and the deadline of each.

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

// Course of an agent that has lost its coordinator.
// It decides which other agents to look for, when to take over itself, and when to give up.
//
// Every agent was told of the same successors in the same order (status_messages.hpp). All of them are
// dialled at once, and only one that has taken over answers. The first of those that are not known to be lost
// takes over when none has answered soon, or after a second where the coordinator's process may live: then
// another one may have been earlier. Each further one gives those before it a few seconds. Who takes over
// first gathers the others and waits until they are a majority (quorum.hpp), so that nothing depends on these
// times but how soon it goes on, and whether all find each other.

class NextCoordinator {
 public:
  explicit NextCoordinator(Milliseconds host_timeout);

  // ---- with a coordinator

  // Notes where the coordinator that was found listens.
  void note_joined(const std::string& address, int port);
  // Notes a roster; true if its number is new. Agents lost before are so no more.
  bool note(const Roster& roster);
  bool is_told() const { return roster_.has_value(); }
  const std::string& host() const { return roster_->host; }  // host of the latest coordinator, if told

  // ---- after its loss

  // Notes the loss. `what`: as a sentence. `listens`: this agent does, at the address in the roster, so that
  // it can take over. Returns the sentence with which the agent ends; nullopt: it ends its workers, and then
  // does what next() says.
  std::optional<std::string> note_lost(const std::string& what, ConnectionEnd end, bool listens,
                                       TimePoint now);
  struct Search {
    std::vector<Successor> successors;       // agents to be joined, the first that answers
    Milliseconds timeout{0};                 // from now
    std::optional<TimePoint> takes_over_at;  // unless some agent has answered by then
  };
  // Returns the search after a loss, once no worker runs here.
  Search next(TimePoint now) const;
  bool is_searching() const { return searches_; }
  // Returns the state for the next coordinator; when told.
  Survivor survivor() const;
  // Gives `settings` what this agent keeps of the lost coordinator, to take over with.
  void inherit(CoordinatorSettings& settings) const;

 private:
  bool is_lost(AgentIndex place) const { return lost_.contains(place); }
  // Returns all but this agent and those that are lost; in order.
  std::vector<Successor> candidates() const;
  std::optional<TimePoint> turn() const;
  TimePoint gives_up_at() const;
  std::string describe_failed_search() const;

  struct Loss {
    std::string what;
    ConnectionEnd end;
    TimePoint at;
  };

  Milliseconds host_timeout_;
  std::optional<Roster> roster_;
  std::optional<AgentIndex> coordinator_;  // the one joined
  std::set<AgentIndex> lost_, ended_;      // since the roster came
  std::optional<Loss> first_, last_;       // losses since the roster came
  bool listens_ = false, searches_ = false;
};

}  // namespace ddprun::rendezvous
