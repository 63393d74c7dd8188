// Answers of the agents: their times, who is silent, whose ranks hang, and one question to all.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "rendezvous/client_questions.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::rendezvous {

// Times at which agents answered, which of them are silent, and one question to all agents about their
// workers.

// Times at which agents answered, and which of them are silent.
// The kernel keeps the connections of a process that is stopped (SIGSTOP) or waits in the kernel (state D),
// so the coordinator asks each agent at intervals whether it runs.

class Answers {
 public:
  static constexpr Milliseconds k_pause{10000};    // between two questions
  static constexpr Milliseconds k_silence{30000};  // after which it is said that an agent does not answer

  // Notes that any message came from the agent. Returns how long it had been silent if that had been
  // reported.
  std::optional<Milliseconds> note_heard(ConnectionId agent, TimePoint now);
  void drop(ConnectionId agent) { agents_.erase(agent); }
  // Asks all at once at the next look.
  void look_at(TimePoint when) { look_at_ = std::min(look_at_.value_or(when), when); }

  // Returns the time of the next look; nothing if no agent is asked.
  std::optional<TimePoint> deadline() const;
  // Returns false if it is too early. Time in which this process itself did not run counts as no silence.
  bool begin_look(TimePoint now);
  std::vector<ConnectionId> asked() const;

  bool is_silent(ConnectionId agent, TimePoint now) const { return silence(agent, now) >= k_silence; }
  Milliseconds silence(ConnectionId agent, TimePoint now) const;
  bool has_been_heard_since(ConnectionId agent, TimePoint moment) const;
  bool takes_silence(ConnectionId agent);  // true once in a silence: it is to be reported
  // Returns how long the silent agent has been waited for: since the first call in a row with `waits`.
  Milliseconds note_waiting(ConnectionId agent, bool waits, TimePoint now);

 private:
  struct Agent {
    TimePoint heard;
    bool told = false;
    std::optional<TimePoint> waited_since;
  };
  std::map<ConnectionId, Agent> agents_;
  std::optional<TimePoint> look_at_;
};

// One question to all agents about their workers.
// Rounds run one at a time; those who ask for the same meanwhile get the same answer.

class StatusRound {
 public:
  static constexpr Milliseconds k_limit{3000};  // an agent that has not answered by then is silent
  enum class Purpose { status, stacks, early_exit, hang, slow };

  void want(Purpose purpose) { wanted_[purpose]; }
  void want(Purpose purpose, ConnectionId asker);
  // Begins a round. Returns its question; nullopt while the one before is open, or if none is wanted.
  std::optional<StatusQuestion> begin(std::set<ConnectionId> agents, TimePoint now);
  Purpose purpose() const { return purpose_; }
  const std::set<ConnectionId>& askers() const { return askers_; }
  void note(ConnectionId agent, const StatusAnswer& answer);
  void drop(ConnectionId agent);
  // Reports whether all have answered, or the time is over: then take_answers() returns the answers by their
  // first rank, and those of agents that gave none are missing.
  bool is_over(TimePoint now) const { return deadline_ && (asked_.empty() || now >= *deadline_); }
  std::vector<status::NodeStatus> take_answers();
  const std::set<ConnectionId>& silent() const { return asked_; }
  std::optional<TimePoint> deadline() const { return deadline_; }

 private:
  int number_ = 0;
  std::map<Purpose, std::set<ConnectionId>> wanted_;  // askers of each purpose
  Purpose purpose_ = Purpose::status;
  std::set<ConnectionId> askers_, asked_;
  std::vector<status::NodeStatus> answers_;
  std::optional<TimePoint> deadline_;
};

// Agents whose ranks show no sign of life in an attempt, and the first early exit.

class Hangs {
 public:
  void begin_attempt() { *this = {}; }
  void note(AgentIndex agent, const Quiet& quiet);
  bool is_quiet(AgentIndex agent) const { return quiet_.contains(agent); }
  // Returns true once in a silence: it is remembered whether that of all of them has been reported.
  bool takes_silence() { return !std::exchange(told_, true); }
  // Returns true for the first word of an attempt's early exits, and of one that has lasted too long.
  bool takes(const EarlyExit& early);
  const std::optional<EarlyExit>& early_exit() const { return early_; }
  std::string why_quiet() const;  // "no rank has shown a sign of life for 20s"; one is quiet
  std::string why_early() const;  // "rank 3 exited with code 0 60s ago"

 private:
  std::map<AgentIndex, Milliseconds> quiet_;  // duration of each silence
  bool told_ = false;
  std::optional<EarlyExit> early_;
};

}  // namespace ddprun::rendezvous
