// Course of an agent that has lost its coordinator.
// It decides which other agents to look for, when to take over itself, and when to give up.
//
// Every agent was told of the same successors in the same order (roster.hpp). All of them are dialled at
// once, and only one that has taken over answers. The first of those that are not known to be lost takes over
// when none has answered soon, or after a second where the coordinator's process may live: then another one
// may have been earlier. Each further one gives those before it a few seconds. Who takes over first gathers
// the others and waits until they are a majority (quorum.hpp), so that nothing depends on these times but how
// soon it goes on, and whether all find each other.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "rendezvous/connection_end.hpp"
#include "rendezvous/coordinator_settings.hpp"
#include "rendezvous/roster.hpp"

namespace ddprun::rendezvous {

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
