// Messages between the agents of one launch, after they have proved that they belong together.
//
// One agent is one ddprun process. Agent 0 coordinates; every agent, agent 0 too, talks to the coordinator
// only. An attempt is one start of the whole world; messages about an attempt name it, so that a late one is
// recognised and dropped.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "checkpoint/manifest.hpp"
#include "events/event.hpp"
#include "lifecycle/restart_policy.hpp"
#include "plan/world_plan.hpp"
#include "rendezvous/client_questions.hpp"
#include "rendezvous/lifeline.hpp"
#include "rendezvous/status_messages.hpp"
#include "report/outcome.hpp"
#include "report/report.hpp"
#include "staging/tree.hpp"
#include "status/job_status.hpp"

namespace ddprun::rendezvous {

// ---- agent to coordinator

// Failure that keeps an agent from starting anything: it joins to report it to the others.
struct LaunchFailure {
  // The sentence, in two parts where it names the agent's host: "cannot start train.py", ": no such file".
  std::string what;
  std::string rest;
  bool names_host = false;
  std::string hint;
  int exit_code = 0;
  friend bool operator==(const LaunchFailure&, const LaunchFailure&) = default;
};

// The first message of an agent, once.
struct Join {
  plan::Announcement announcement;
  std::string version;  // version of ddprun
  std::string reached;  // numeric address of the coordinator that worked; empty for agent 0
  int agents = 1;       // number of agents that this one believes there are
  std::optional<LaunchFailure> failure{};
  std::optional<Survivor> survivor{};  // state kept from the same job under another coordinator
  checkpoint::Held checkpoints{};      // kept by a job before, or under another coordinator
  friend bool operator==(const Join&, const Join&) = default;
};

// Answer to Probe.
struct Probed {
  std::vector<std::string> reachable;
  std::vector<std::string> failures{};  // failures of the others: "10.0.0.1: connection refused"
  friend bool operator==(const Probed&, const Probed&) = default;
};

// A worker failed. The agent may stop its other workers at once; it still answers the Stop that follows.
struct AttemptFailed {
  Attempt attempt;
  report::Failure failure;
  friend bool operator==(const AttemptFailed&, const AttemptFailed&) = default;
};

// All workers of this agent ended with success.
struct AttemptSucceeded {
  Attempt attempt;
  friend bool operator==(const AttemptSucceeded&, const AttemptSucceeded&) = default;
};

// Answer to Stop, always, also when nothing was running: no worker of the attempt is left on this agent.
struct Stopped {
  Attempt attempt;
  std::vector<report::Failure> failures;  // beyond the one reported
  std::vector<int> stopped{};             // ranks that did not fail by themselves, and did not succeed
  bool progressed = false;                // a worker touched its DDPRUN_PROGRESS_FILE
  std::vector<int> finished{};            // ranks that had ended with success before the stop
  std::vector<int> finished_ago{};        // milliseconds between their end and the stop, in the same order
  std::vector<report::KilledRanks> killed{};
  Unfit unfit{};
  checkpoint::Held checkpoints{};
  friend bool operator==(const Stopped&, const Stopped&) = default;
};

// Notice beside the answer that Stop still waits for: SIGKILL has not ended all workers of this agent.
struct Stuck {
  Attempt attempt;
  friend bool operator==(const Stuck&, const Stuck&) = default;
};

// Request to end the whole job: this ddprun was signalled. Once more, after a request before it, by a person:
// a last flush is not waited for any longer.
struct StopRequest {
  int signal = 0;
  std::string host;
  bool whole_tree = false;  // workers of its host had the signal from the sender too
  std::string sender{};     // "sent by bash, pid 77"; empty: from above ddprun, by a key, or not known
  bool again = false;
  friend bool operator==(const StopRequest&, const StopRequest&) = default;
};

// Event for the coordinator's --events and --metrics.
struct Happened {
  events::Event event;
  friend bool operator==(const Happened&, const Happened&) = default;
};

// All ranks of this agent have shown no sign of life for the hang time-out, or one does again.
struct Quiet {
  Attempt attempt;
  bool quiet = false;
  Milliseconds since{0};  // duration of the silence
  friend bool operator==(const Quiet&, const Quiet&) = default;
};

// A rank of this agent has exited with 0, and the attempt goes on.
struct EarlyExit {
  Attempt attempt;
  GlobalRank rank;
  Milliseconds since{0};
  bool expired = false;  // --exit-barrier-timeout has passed
  friend bool operator==(const EarlyExit&, const EarlyExit&) = default;
};

// Answer to a Roster with a number that is new to the agent.
struct RosterTaken {
  int number = 0;
  friend bool operator==(const RosterTaken&, const RosterTaken&) = default;
};

// Modules to import for a worker (--standby): sent by an agent whose workers have loaded them, and to the
// agents that stand by.
struct Modules {
  std::vector<std::string> names;
  friend bool operator==(const Modules&, const Modules&) = default;
};

struct Alive {  // answer to AliveQuestion
  friend bool operator==(const Alive&, const Alive&) = default;
};

// Checkpoints that the agent has, whenever they change.
struct CheckpointsHeld {
  checkpoint::Held held;
  friend bool operator==(const CheckpointsHeld&, const CheckpointsHeld&) = default;
};

// lifeline::Output, instead of everything else (--gather): this connection carries what an agent writes to
// one of its standard outputs. The bytes follow as they are, to their end; the coordinator closes once it has
// read all of them.

// ---- coordinator to agent

// Instead of everything else: this agent cannot take part. The connection ends.
struct Refused {
  std::string reason;
  std::string hint;
  friend bool operator==(const Refused&, const Refused&) = default;
};

// Question to an agent: which of these addresses of the coordinator can it reach?
struct Probe {
  std::vector<std::string> addresses;
  int port = 0;
  friend bool operator==(const Probe&, const Probe&) = default;
};

// Do you run? The kernel keeps the connections of a process that is stopped (SIGSTOP).
struct AliveQuestion {
  // Time that the workers have to stop if the scheduler gives more than --shutdown-timeout; else 0.
  Milliseconds grace{0};
  friend bool operator==(const AliveQuestion&, const AliveQuestion&) = default;
};

// Start the workers; the store at master_address:master_port is already listening.
struct Start {
  plan::Assignment assignment;
  Milliseconds pause{0};  // longest pause between its Stopped and the next Start: --restart-backoff
  std::vector<staging::Server> stage_sources{};  // sources for a host that has no copies yet (--stage)
  std::optional<checkpoint::Restore> restore{};  // nullopt: the workers begin anew
  friend bool operator==(const Start&, const Start&) = default;
};

// Others take part in this attempt; be ready to take a lost one's place (--spares).
struct Standby {
  std::vector<staging::Server> stage_sources{};  // same as in Start
  friend bool operator==(const Standby&, const Standby&) = default;
};

// The job ends soon: give this signal to the main processes of the workers that handle it.
struct Warn {
  Attempt attempt;
  int signal = 0;
  friend bool operator==(const Warn&, const Warn&) = default;
};

// Stop the workers of this attempt and answer Stopped.
struct Stop {
  Attempt attempt;
  int signal = SIGTERM;     // for the workers
  bool whole_tree = false;  // StopRequest::whole_tree: the sender may be about to signal this host too
  bool again = false;       // another attempt may follow
  std::optional<report::Failure> failure{};  // failure that it answers, without the worker's words
  friend bool operator==(const Stop&, const Stop&) = default;
};

// Whenever it changes.
struct CheckpointOrder {
  checkpoint::Order order;
  friend bool operator==(const CheckpointOrder&, const CheckpointOrder&) = default;
};

// The last message to every agent: end with exit_code_of(cause). Workers still running are killed.
struct Finish {
  report::Cause cause;
  std::vector<report::Failure> others;  // failures after the first; only where report_here
  std::vector<std::string> remarks;     // sentences for the report, "lost n3 while stopping"; likewise
  bool report_here = false;             // exactly one agent prints the report
  // Ranks that were stopped because of it, or that ran when a signal came that stops the job; never sent to
  // another host.
  std::vector<int> victims{};
  report::UsedRestarts restarts{};            // also never sent to another host
  std::vector<report::Hang> hangs{};          // also never sent to another host
  std::vector<report::KilledRanks> killed{};  // in the last attempt; also never sent to another host
  bool drained = false;                       // the receiver's host: its name is for --exclude-file
  friend bool operator==(const Finish&, const Finish&) = default;
};

using AgentMessage =
    std::variant<Join, Probed, AttemptFailed, AttemptSucceeded, Stopped, Stuck, StopRequest, ClientVerdict,
                 Happened, StatusAnswer, Quiet, EarlyExit, JobQuestion, RosterTaken, Modules, Alive,
                 lifeline::Output, RestartRequest, Looked, ProfileRequest, ProfilePart, ClockQuestion,
                 CollectivesSeen, CheckpointsHeld>;
using CoordinatorMessage =
    std::variant<Refused, Probe, ClientQuestion, StatusQuestion, NodeShown, JobShown, Roster, Start, Standby,
                 Modules, AliveQuestion, Warn, Stop, Finish, RestartReply, Look, ProfileRequest, ProfilePart,
                 ClockReply, CheckpointOrder>;

}  // namespace ddprun::rendezvous
