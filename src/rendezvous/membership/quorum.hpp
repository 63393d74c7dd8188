// Whether the agents that are here may go on, or others that cannot be seen may do so: a network that is
// split must not leave two worlds.
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
#include "rendezvous/roster.hpp"

namespace ddprun::rendezvous {

class Quorum {
 public:
  // ---- by the coordinator of the agents

  // The agents of the next attempt, ascending; all are here.
  void begin(const std::vector<AgentIndex>& agents);
  // It has been told of the roll of that number. True where an earlier roll counts no more because of that.
  bool note_told(AgentIndex agent, int number);
  // It is not here any more. Without effect on rolls that it is not in, or where another had its place.
  void note_left(AgentIndex agent, bool ended);

  // ---- by the next coordinator, before its first attempt

  // What an agent that has joined was told, which may be more than others were; it is here.
  void note_survivor(const Survivor& survivor);

  // ----

  bool is_majority() const;
  bool is_counted(AgentIndex agent) const;  // it is here, in the latest roll
  // Whether nobody is away, but for `agent`.
  bool is_complete_without(AgentIndex agent) const;
  bool is_complete() const { return is_complete_without({-1}); }
  struct Count {
    int here = 0;
    int all = 0;  // that have not ended
  };
  Count count() const;  // of the latest roll
  std::vector<Roll> rolls() const;
  int number() const { return rolls_.empty() ? 0 : rolls_.back().number; }

 private:
  struct Kept {
    int number = 0;
    std::vector<PlaceRange> agents;   // as it was begun
    std::set<AgentIndex> here, away;  // of them, that have not ended
    std::set<AgentIndex> told;        // of them, about a later roll
    bool unchanged = true;            // all are here
  };
  void add(const Roll& roll);
  void drop_before(int number);
  void note_joined(const Survivor& survivor);
  void note_known(const Survivor& survivor);
  static bool has_majority(const Kept& roll);
  static bool is_settled(const Kept& roll);

  std::vector<Kept> rolls_;  // that count, ascending
  int settled_ = 0;          // earlier ones do not count
  std::vector<Survivor> survivors_;
  std::set<AgentIndex> ended_;  // coordinators
};

}  // namespace ddprun::rendezvous
