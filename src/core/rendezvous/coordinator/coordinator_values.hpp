// Values of the coordinator's state machine: its agents, restarts asked for, and its actions.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "allocation/allocation.hpp"
#include "base/duration.hpp"
#include "base/ids.hpp"
#include "events/event.hpp"
#include "rendezvous/client_questions.hpp"
#include "rendezvous/message.hpp"
#include "rendezvous/missing_agents.hpp"
#include "rendezvous/status_messages.hpp"
#include "report/outcome.hpp"
#include "report/report.hpp"
#include "report/root_cause.hpp"
#include "slow/slow_watch.hpp"
#include "status/verdict.hpp"

namespace ddprun::rendezvous {

// Actions that the coordinator's state machine returns, to be carried out in order.

struct SendTo {
  ConnectionId connection;
  CoordinatorMessage message;
};
// Closes the connection, after what was sent to it is on its way.
struct CloseConnection {
  ConnectionId connection;
  bool reset = false;  // at once, and so that it does not look like the end of this process
};
// Answer with on_store_ready or on_store_failed. `address` is MASTER_ADDR.
struct OpenStore {
  Attempt attempt;
  std::string address;
  int world_size = 1;
  std::vector<std::string> clients;  // addresses of the job's hosts
};
// Closes the store, also one that was asked for and has not answered yet.
struct CloseStore {
  Attempt attempt;
};
// The answer to on_store_client.
struct JudgeClient {
  ClientVerdict verdict;
};
// Ranks hang, and the job goes on.
struct ShowHang {
  status::Verdict verdict;
};
// Shows a line that replaces the one before; empty: nothing to wait for any more.
struct ShowStatus {
  std::string text;
};
// A worker's failure was answered with another attempt.
struct ShowRestart {
  report::Failure cause;
  Attempt next;
  int restarts = 1;  // used, this one included
  int max_restarts = 0;
  Milliseconds delay{0};  // from now to its start
};
// A remark about the launch that stops nothing.
struct ShowNotice {
  allocation::Notice notice;
};
struct Record {  // for --events: the time, and the host where it has none, are to be filled in
  events::Event event;
};
// Always the last action.
struct EndJob {
  report::Cause cause;
};
using CoordinatorAction = std::variant<SendTo, CloseConnection, OpenStore, CloseStore, JudgeClient, ShowHang,
                                       ShowStatus, ShowRestart, ShowNotice, Record, EndJob>;

// State of one agent as the coordinator knows it, beside its place (membership.hpp).

struct CoordinatorAgent {
  std::string reached;
  std::optional<LaunchFailure> failure;            // set if it has joined only to report it
  std::optional<std::vector<std::string>> probed;  // addresses it reached; nullopt: no answer yet
  std::vector<std::string> probe_failures;         // failures in its latest answer
  bool asked = false;                              // a Probe is not answered yet
  bool succeeded = false;
  bool stopped = false;
  bool looks = false;  // at its node, as a spare; not answered yet

  bool has_reached(const std::string& address) const {
    return std::find(probed->begin(), probed->end(), address) != probed->end();
  }
};

// Reports whether each of so many agents is done. The first `done` agents stay so and are not looked at
// again.
template <class IsDone>
bool all_done(std::size_t agents, std::size_t& done, const IsDone& is_done) {
  while (done < agents && is_done(AgentIndex{static_cast<int>(done)})) ++done;
  return done == agents;
}

// Agents of the lost coordinator that have joined the one that takes over.
struct Gathering {
  std::vector<Survivor> survivors;  // this process' agent first
  std::optional<TimePoint> majority_at, due;
};

// End of the job as the coordinator knows it.
struct CoordinatorJobEnd {
  std::optional<TimePoint> at;              // time of it, as far as the scheduler shows it
  std::optional<int> warning;               // the signal that the workers were sent before it
  TimePoint decided_at;                     // when all workers of the last attempt had stopped
  Milliseconds grace{0};                    // time that the scheduler gives the workers to stop; 0: not known
  std::vector<report::KilledRanks> killed;  // in this attempt
  std::map<int, report::EarlyEnd> finished;  // ranks of this attempt that had succeeded before its stop
};

// Join of an agent that is back before its loss was noticed: it waits for its place.
struct HeldJoin {
  ConnectionId connection;
  Join join;
  TimePoint until;  // then it is refused
};

// Restarts that were asked for by --restart and --drain, until the next attempt.

class RestartRequests {
 public:
  void begin_attempt() { *this = {}; }
  bool any() const { return any_; }
  // Notes a restart of the same nodes; `why` is one of the coordinator's changes.
  void note_restart(std::string why) {
    any_ = true;
    restart_ = std::move(why);
  }
  // Reports whether a restart of the same nodes was asked for, and nothing else has changed.
  bool explains(const std::vector<std::string>& changes) const {
    return restart_ && changes.size() == 1 && changes.front() == *restart_;
  }
  // Notes that the agent is let go once it has stopped its workers.
  void note_drain(AgentIndex agent, std::string why) {
    any_ = true;
    drains_[agent] = std::move(why);
  }
  void drop(AgentIndex agent) { drains_.erase(agent); }
  bool drains(AgentIndex agent) const { return drains_.contains(agent); }
  std::string take_drain(AgentIndex agent) { return std::move(drains_.extract(agent).mapped()); }
  std::set<AgentIndex> drained() const {
    std::set<AgentIndex> agents;
    for (const auto& [agent, why] : drains_) agents.insert(agent);
    return agents;
  }

 private:
  bool any_ = false;
  std::optional<std::string> restart_;
  std::map<AgentIndex, std::string> drains_;  // reason for each
};

}  // namespace ddprun::rendezvous

namespace ddprun::rendezvous::told {

// Events that the coordinator reports to --events, as values.

events::Event joined(std::string host, int workers);
events::Event refused(const std::string& address, const std::string& why);
events::Event planned(int nodes, int workers);
events::Event attempt(Attempt attempt, int workers);
events::Event stopping(Attempt attempt, const std::string& why);
events::Event lost(std::string host, std::string sentence);
events::Event hang(Attempt attempt, const status::Verdict& verdict);
events::Event failed(const report::Failure& failure);
// Makes the event of a restart. `cause`: the failure that it answers, if there is one.
events::Event restart(Attempt attempt, std::string what, const report::Failure* cause = nullptr);
events::Event asked(Attempt attempt, std::string what);
events::Event unfit(Attempt attempt, std::string host, std::string what, std::string hint);
events::Event slow(Attempt attempt, const slow::SlowNotice& notice);
events::Event waited(Attempt attempt, int rank, double seconds);
// Makes the event of a step that is complete in memory, or in the flush folder of that name.
events::Event checkpoint(Attempt attempt, std::int64_t step, const std::string& folder);
events::Event end(Attempt attempt, const report::Cause& cause);

}  // namespace ddprun::rendezvous::told
