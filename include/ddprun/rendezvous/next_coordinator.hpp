// What an agent does that has lost its coordinator: which others it looks for, when it takes over itself, and
// when it gives up.
//
// Every agent was told of the same successors in the same order (roster.hpp). All of them are dialled at
// once, and only one that has taken over answers. The first of those that are not known to be lost takes over
// at once, or a second later where the coordinator's process may live: then another one may have been
// earlier. Each further one gives those before it a few seconds. Who takes over first gathers the others and
// waits until they are a majority (quorum.hpp), so that nothing depends on these times but how soon it goes
// on.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ddprun/base/duration.hpp"
#include "ddprun/rendezvous/roster.hpp"

namespace ddprun::rendezvous {

class NextCoordinator {
 public:
  explicit NextCoordinator(Milliseconds host_timeout);

  // ---- with a coordinator

  // The one that was found listens there.
  void note_joined(const std::string& address, int port);
  // True where its number is new. What was lost before is so no more.
  bool note(const Roster& roster);
  bool is_told() const { return roster_.has_value(); }
  const std::string& host() const { return roster_->host; }  // of the latest coordinator, when told

  // ---- without

  // `ended`: its process has, as far as its connection shows.
  void note_lost(bool ended, TimePoint now);
  // All but this agent and those that are lost; in order.
  std::vector<Successor> candidates() const;
  // Nothing: never.
  std::optional<TimePoint> takes_over_at() const;
  std::optional<TimePoint> gives_up_at() const;
  // Nobody is left to look for, this agent included.
  bool is_hopeless() const { return candidates().empty() && !takes_over_at(); }
  // For the next coordinator. Only when told.
  Survivor survivor() const;

 private:
  bool is_lost(AgentIndex place) const { return lost_.contains(place); }

  Milliseconds patience_;  // with the search, from the first loss on
  Milliseconds turn_;
  std::optional<Roster> roster_;
  std::optional<AgentIndex> coordinator_;  // the one joined
  std::set<AgentIndex> lost_, ended_;      // since the roster came
  std::optional<TimePoint> first_loss_, last_loss_;
  bool last_ended_ = false;
};

}  // namespace ddprun::rendezvous
