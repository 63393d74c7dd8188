// Watch over the ranks of the running job: what they are asked, and what their answers show.
// One question to all agents at a time gives the job's status, its stacks, and the places of ranks that hang
// or are slow; which rank is slow is judged from the collectives that all have seen. What follows from it for
// the job, a stop or a spare in the place of a node, is the coordinator's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "rendezvous/client_questions.hpp"
#include "rendezvous/coordinator/coordinator_values.hpp"
#include "rendezvous/coordinator_settings.hpp"
#include "rendezvous/expected_messages.hpp"
#include "rendezvous/membership/membership.hpp"
#include "rendezvous/message.hpp"
#include "slow/slow_watch.hpp"
#include "status/verdict.hpp"

namespace ddprun::rendezvous {

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

// Returns the name of an agent's host, as far as it is known: "number 3" otherwise.
std::string name_host(const Membership& members, const CoordinatorSettings& settings, AgentIndex agent);

// State of the job as the coordinator knows it at the moment of a call.
struct JobFacts {
  const CoordinatorSettings& settings;
  const Membership& members;
  CoordinatorState state = CoordinatorState::gathering;
  Attempt attempt{};
  int restarts = 0;
  const plan::WorldPlan& world;
  std::function<std::string()> phase;       // in words
  std::function<bool(AgentIndex)> is_over;  // it takes no part any more, or its ranks have ended
  std::function<bool(AgentIndex)> may_run_workers;
};

class JobWatch {
 public:
  explicit JobWatch(const std::optional<options::SlowNotice>& notice) : slow_(notice) {}

  // Result for the coordinator.
  struct Found {
    std::vector<CoordinatorAction> actions;  // first
    std::optional<status::Verdict> hang;     // ends the attempt
    std::optional<slow::SlowNotice> slow;    // to be told, with what the coordinator adds
  };

  void begin_attempt();
  void drop(ConnectionId agent) { round_.drop(agent); }

  Found note(ConnectionId asker, const JobQuestion& question, const JobFacts& job, TimePoint now);
  Found note(ConnectionId agent, const StatusAnswer& answer, const JobFacts& job, TimePoint now);
  Found note(ConnectionId agent, const Quiet& quiet, const JobFacts& job, TimePoint now);
  Found note(ConnectionId agent, const EarlyExit& early, const JobFacts& job, TimePoint now);
  Found note(ConnectionId agent, const ClockQuestion& question, const JobFacts& job, TimePoint now) const;
  Found note(ConnectionId agent, const CollectivesSeen& seen, const JobFacts& job, TimePoint now);
  // Profiles are passed on, and nothing of them is kept.
  Found note(ConnectionId asker, const ProfileRequest& request, const JobFacts& job, TimePoint now) const;
  Found note(ConnectionId agent, const ProfilePart& part, const JobFacts& job, TimePoint now) const;

  // Ends a round whose time is over.
  Found on_time(const JobFacts& job, TimePoint now);
  std::optional<TimePoint> deadline() const { return round_.deadline(); }

 private:
  void ask(Found& found, const JobFacts& job, TimePoint now);
  void end_round(Found& found, const JobFacts& job, TimePoint now);
  status::JobStatus take_status(const JobFacts& job);
  bool all_quiet(const JobFacts& job) const;
  void judge_hang(Found& found, const status::JobStatus& status, bool early, const JobFacts& job) const;
  void judge_slow(Found& found, const status::JobStatus& status, const JobFacts& job);
  void tell_slow_link(Found& found, const slow::SlowLink& link, const JobFacts& job) const;
  static void record(Found& found, const JobFacts& job, events::Event event);

  StatusRound round_;
  Hangs hangs_;
  slow::SlowWatch slow_;
  std::optional<slow::SlowRank> slow_due_;  // rank whose notice is due
};

// Messages that are for the watch alone.
template <class Message>
concept WatchMessage = requires(JobWatch& watch, const Message& message, const JobFacts& job) {
  watch.note(ConnectionId{}, message, job, TimePoint{});
};

}  // namespace ddprun::rendezvous
