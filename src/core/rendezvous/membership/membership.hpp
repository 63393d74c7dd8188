// Agents of a launch: which are known, which are here, and which take part in an attempt.
//
// Every agent has a place from 0 on: its own number, or a free one that it is given as it comes. The
// first coordinator's is 0. A place outlives who was there, so that a host that comes back is known.
//
// Where `spares` agents wait, an attempt has slots for the others only. Who takes part keeps its slot, and so
// its ranks. A slot whose agent is gone is for the agent whose number it has, then for the waiting one of the
// lowest place; who was set aside comes last. Slots that stay empty are left out, and ranks close up in the
// order of the slots. Without spares every place has a slot.
//
// By the network, the slots are in the order of plan::order_by_network, a gone agent's slot is for the
// nearest one that waits, and without spares the slots are given out anew each time.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "plan/world_plan.hpp"
#include "rendezvous/client_questions.hpp"

namespace ddprun::rendezvous {

// Rules of a choice beside the order of arrival and of the scheduler.
struct ChoiceRules {
  bool by_network = false;
  int domain_size = 0;  // agents of one unit (plan::unit_of) that take part, or their multiple; 0: any number
  int least = 0;        // number that takes part at least, whole units or not
  int replace_after = 2;  // --replace-after; 0: never
};

struct Member {
  std::optional<ConnectionId> connection;          // nullopt: it is not here
  std::optional<plan::Announcement> announcement;  // latest from this place; nullopt: none has come
  std::optional<std::size_t> position;  // among the participants; nullopt: it waits, or is not here
  std::optional<int> slot;              // slot at the latest choice of participants
  bool by_arrival = false;              // numbered as it came, and as well off in another place
  bool set_aside = false;               // takes part only if no other agent can
  int hardware_failures = 0;            // attempts that failed here first, and may have by the hardware
  std::string lost;                     // reason why it was here and is not any more
};

// Agent that has taken over the slot of another, and its ranks.
struct Succession {
  AgentIndex before, after;
  friend bool operator==(const Succession&, const Succession&) = default;
};

class Membership {
 public:
  // Makes the membership: 0 <= spares < places; `own` is the coordinator's place.
  explicit Membership(int places, int spares = 0, AgentIndex own = {0}, ChoiceRules rules = {});

  int places() const { return static_cast<int>(members_.size()); }
  int slots() const { return static_cast<int>(slots_.size()); }
  const Member& at(AgentIndex agent) const { return members_[static_cast<std::size_t>(agent.value)]; }
  bool is_here(AgentIndex agent) const { return at(agent).connection.has_value(); }
  bool takes_part(AgentIndex agent) const { return at(agent).position.has_value(); }
  // Returns the agents that are here.
  const std::map<ConnectionId, AgentIndex>& here() const { return here_; }
  // Returns the number of their nodes, without those of some: with one agent a task, of hosts.
  int nodes_here(const std::set<AgentIndex>& without = {}) const;
  // Returns the places of a host by the name that it has announced, or by its short name; some may be gone.
  std::vector<AgentIndex> places_of(std::string_view host) const;
  std::vector<int> missing() const;
  std::vector<std::string> lost_hosts() const;

  // ---- arrivals and losses

  struct Place {
    AgentIndex place;
    std::optional<AgentIndex> moved_to;  // place that the agent there has to move to first
  };
  // Finds its place before the first attempt. nullopt if it has none, or another agent has it by right.
  std::optional<Place> find_place(const plan::Announcement& announcement) const;
  void move(AgentIndex from, AgentIndex to);
  // Finds its place after that: the one that it had on this host before, else any that is free.
  std::optional<AgentIndex> find_late_place(const plan::Announcement& announcement) const;
  // Returns the reason why it cannot be there together with the agents that are here.
  std::optional<Error> find_clash(AgentIndex place, const plan::Announcement& announcement) const;
  void enter(AgentIndex place, ConnectionId connection, plan::Announcement announcement);
  void leave(AgentIndex agent, std::string why);

  // ---- participants

  // Chooses the participants of the next attempt: all that are here, as far as there are slots.
  std::vector<Succession> choose();
  // Reports whether choose() would choose others than those that take part.
  bool is_changed() const;
  // Returns the participants of the last choice, indexed by position; some may have gone since.
  const std::vector<AgentIndex>& participants() const { return participants_; }
  std::vector<plan::Announcement> announcements() const;
  // Reports whether the slots are in the order of the network.
  bool is_ordered() const { return ordered_; }

  // ---- state of the previous coordinator

  // Keeps a slot for the agent that had it, so that it is the first to get it.
  void keep_slot(AgentIndex agent, int slot);
  void keep_aside(AgentIndex agent);
  // Notes an agent that was there, and has not joined this one.
  void note_lost(AgentIndex agent, const std::string& host, std::string why);
  std::vector<AgentIndex> waiting() const;  // are here, and do not take part
  // Sets an agent aside from the next choice on. False if no other could take its slot.
  bool set_aside(AgentIndex agent);
  // Notes that the first failure of an attempt was there. After `replace_after` of them in a row, or with the
  // mark of hardware, the agent is set aside, except the coordinator's.
  void note_first_failure(AgentIndex agent, bool hardware);

 private:
  bool has_spares() const { return slots_.size() < members_.size(); }
  bool anyone_waits() const;  // leaves out those set aside
  Member& member(AgentIndex agent) { return members_[static_cast<std::size_t>(agent.value)]; }
  std::optional<AgentIndex> free_place() const;
  bool stays(AgentIndex agent) const;
  void order_places();
  void choose_whole_units();
  void fill_slots(const std::vector<std::optional<AgentIndex>>& before, std::vector<bool>& placed,
                  bool aside);
  void give_back_slots(const std::vector<std::optional<AgentIndex>>& before);

  AgentIndex own_;
  ChoiceRules rules_;
  bool ordered_ = false;
  std::vector<AgentIndex> order_;  // all places, in the order of their slots
  std::vector<bool> left_out_;     // places that wait so that units are whole
  std::vector<Member> members_;
  std::map<ConnectionId, AgentIndex> here_;
  std::vector<std::optional<AgentIndex>> slots_;
  std::vector<AgentIndex> participants_;
  std::optional<AgentIndex> failed_first_;  // in the latest attempt that failed
  int first_failures_ = 0;                  // attempts in a row in which failed_first_ failed first
};

}  // namespace ddprun::rendezvous
