// Search of a member for the coordinator.
// It walks the candidates, address by port, until one of them proves to be the coordinator of this launch or
// the join deadline passes.
//
// All ports of an address are tried at once. Addresses start one after the other, best first, a moment apart,
// so that members agree on the best one when several work. A name is looked up first and retried when it is
// not known yet, and now and then when it is: it may have led to an address of yesterday, which is then
// dropped. Each candidate that fails is tried again after a pause that doubles up to a limit: the coordinator
// may be late. Those that have waited longest come first. Strangers and other jobs on a port are failures
// like a refused connection. The first that proves itself wins; the others are dropped. The last failure of
// each candidate is kept for the sentence at the end.
//
// Where it is may also show in two other ways, which are as good as any address: the launcher's key-value
// space tells it once, a rendezvous file is looked at again and again. What a file says may be of a launch
// that was killed, so a newer text replaces the candidates of the one before.
//
// Nothing here looks at a clock or a socket: events and `now` in, actions out.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "rendezvous/coordinator_address.hpp"
#include "rendezvous/status_messages.hpp"

namespace ddprun::rendezvous {

using CandidateId = Id<struct CandidateTag>;

struct MemberJoinSettings {
  std::string coordinator;             // host name, for messages; empty: not known
  std::vector<std::string> addresses;  // names or numeric addresses, best first
  std::vector<int> ports;
  Milliseconds join_timeout{600000};
  std::string rendezvous_file;   // path of the file; empty: there is none
  std::string key_value_space;   // the launcher's, for messages: "PMI"; empty: there is none
  std::vector<int> spare_ports;  // ports of a coordinator that cannot have those; tried later and less often
  // Patience at an address that the user named and that refuses this launch all the time: another launch
  // there may end soon, or one of the commands has a mistake. nullopt: the join time-out.
  std::optional<Milliseconds> refusal_patience{};
  bool live = false;                    // ShowJoinStatus goes to a terminal: more often than into a log
  std::string doubt{};                  // reason why no ddprun may be there, said while none answers
  std::vector<Successor> successors{};  // successors of a lost coordinator, any of which may coordinate now
};

enum class DiscoveryWay { key_value_space, file };

// Answer with on_resolved or on_resolve_failed.
struct ResolveName {
  std::string name;
};
// Connect and shake hands; answer with on_failed or on_authenticated.
struct DialCandidate {
  CandidateId candidate;
  std::string address;  // numeric
  int port = 0;
};
// Answer with on_place or on_no_place.
struct LookAtRendezvousFile {};
// Drop every look-up and dial but this one: it is the coordinator.
struct TakeCandidate {
  CandidateId candidate;
};
// The last action: drop everything.
struct GiveUp {
  std::string what;
  std::string hint;
};
struct ShowJoinStatus {
  std::string text;
};
using MemberJoinAction =
    std::variant<ResolveName, DialCandidate, LookAtRendezvousFile, TakeCandidate, GiveUp, ShowJoinStatus>;

// Returns true for "10.0.0.1" and any text with a colon: no look-up needed.
bool is_numeric_address(const std::string& text);

class MemberJoin {
 public:
  using Actions = std::vector<MemberJoinAction>;

  MemberJoin(MemberJoinSettings settings, TimePoint now);

  Actions start(TimePoint now) { return on_time(now); }
  Actions on_resolved(const std::string& name, const std::vector<std::string>& addresses, TimePoint now);
  Actions on_resolve_failed(const std::string& name, const std::string& why, TimePoint now);
  Actions on_place(DiscoveryWay way, const CoordinatorPlace& place, TimePoint now);
  // Notes that a way shows no place. `why` may be empty for a file: there is none yet.
  Actions on_no_place(DiscoveryWay way, const std::string& why, TimePoint now);
  // Notes a failure. `answered`: a process is there and said so. What it said stays in the messages when it
  // is gone later.
  Actions on_failed(CandidateId candidate, const std::string& why, TimePoint now, bool answered = false);
  Actions on_authenticated(CandidateId candidate, TimePoint now);
  Actions on_time(TimePoint now);
  std::optional<TimePoint> deadline() const;  // when on_time wants to be called; nullopt when over
  bool over() const { return over_; }

 private:
  // Something that is tried, fails and is tried again.
  struct Trial {
    bool under_way = false;
    bool done = false;
    TimePoint next;
    Milliseconds pause{0};
    std::string error;
  };
  struct Name {
    std::string text;
    Trial trial;         // trial of its look-up; done for numeric addresses
    bool known = false;  // has led to addresses
  };
  struct Candidate {
    std::string name;  // name used by the user or the scheduler, or the way it was published
    std::string address;
    int port = 0;
    bool spare = false;  // ignored if no process answers there
    std::string answer;  // last refusal by a process there
    std::optional<TimePoint> refused_since;
    Trial trial;
  };

  // Way to learn the coordinator's address beside the given ones.
  struct Way {
    Trial trial;
    std::string name;
    std::optional<CoordinatorPlace> told;
  };

  Way& way_of(DiscoveryWay way) { return way == DiscoveryWay::key_value_space ? key_value_space_ : file_; }
  void add_candidate(const std::string& name, const std::string& address, int port, TimePoint from,
                     bool spare = false);
  void drop_candidates(const std::string& name, const std::vector<std::string>& kept);
  void add_candidates(std::size_t place, const std::string& address, TimePoint now);
  void look_again(TimePoint now);
  // Fails a trial. The next one is after a pause that doubles from the first to the longest.
  static void fail(Trial& trial, const std::string& why, Milliseconds first_pause, TimePoint now,
                   Milliseconds longest_pause);
  void start_due(TimePoint now, Actions& actions);
  void show_status(TimePoint now, Actions& actions);
  std::vector<std::string> describe_ways() const;
  std::vector<std::string> describe_failures() const;
  bool was_answered() const;
  bool refused_for_good(TimePoint now) const;
  GiveUp give_up(Milliseconds after) const;

  MemberJoinSettings settings_;
  TimePoint started_;
  std::vector<Name> names_;  // indexed as settings_.addresses; numeric ones are done
  std::vector<Candidate> candidates_;
  Way key_value_space_;
  Way file_;
  TimePoint status_due_;
  std::string status_shown_;
  bool over_ = false;
};

}  // namespace ddprun::rendezvous
