// Majority rule of a job whose coordinator or agents may be lost.
// It decides whether the agents that are here may continue, or others that cannot be seen may: a network that
// is split must not leave two worlds.
//
// Who goes on, an old coordinator as well as a new one, needs more than half of the latest roll here, or
// exactly half with its lowest place. Who has ended counts on neither side. That shows in the end of its
// connection, since a kernel closes the sockets of a process that has ended, and a ddprun that closes one
// while it lives resets it. Whose connection broke otherwise is away: it may live, and counts as one of the
// others for good, whoever has its place later.
//
// When the agents change, some may not have heard of it yet and would go on by the roll before. So that one
// counts as well until a majority of it knows the new one: any other majority of it then has an agent that
// knows better.
#pragma once

#include <set>
#include <vector>

#include "base/ids.hpp"
#include "rendezvous/status_messages.hpp"

namespace ddprun::rendezvous {

class Quorum {
 public:
  // ---- by the coordinator of the agents

  // Begins a roll of the next attempt's agents, ascending; all are here.
  void begin(const std::vector<AgentIndex>& agents);
  // Notes that it knows the roll of that number. True if an earlier roll counts no more because of that.
  bool note_told(AgentIndex agent, int number);
  // Notes that it is not here any more. Without effect on rolls that it is not in, or in which another had
  // its place.
  void note_left(AgentIndex agent, bool ended);
  // Notes that an agent that was away has ended after all: it had left before the roll of that number was
  // followed by another.
  void note_ended(AgentIndex agent, int number);

  // ---- by the next coordinator, before its first attempt

  // Notes the roster of an agent that has joined, which may be later than those of others; that agent is
  // here.
  void note_survivor(const Survivor& survivor);

  // ----

  bool is_majority() const;
  bool is_counted(AgentIndex agent) const;  // here, and in the latest roll
  // Reports whether no agent is away except `agent`.
  bool is_complete_without(AgentIndex agent) const;
  bool is_complete() const { return is_complete_without({-1}); }
  struct Count {
    int here = 0;
    int all = 0;  // agents that have not ended
  };
  Count count() const;  // counts in the latest roll
  std::vector<Roll> rolls() const;
  int number() const { return rolls_.empty() ? 0 : rolls_.back().number; }

 private:
  struct Kept {
    int number = 0;
    std::vector<PlaceRange> agents;   // agents it began with
    std::set<AgentIndex> here, away;  // subsets that have not ended
    std::set<AgentIndex> told;        // agents that know a later roll
    bool unchanged = true;            // all are here
  };
  void add(const Roll& roll);
  void drop_before(int number);
  void note_joined(const Survivor& survivor);
  void note_known(const Survivor& survivor);
  static bool has_majority(const Kept& roll);
  static bool is_settled(const Kept& roll);

  std::vector<Kept> rolls_;  // rolls that still count, ascending
  int settled_ = 0;          // earlier ones do not count
  std::vector<Survivor> survivors_;
  std::set<AgentIndex> ended_;  // coordinators
};

}  // namespace ddprun::rendezvous
