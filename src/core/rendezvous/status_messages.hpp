// Messages about the state of the job, and the state with which another agent can take over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "slow/trace.hpp"
#include "status/job_status.hpp"

namespace ddprun::rendezvous {

// Messages about the state of the job, which change nothing.
// For --status, --stacks, --profile and --slow-notice.

// Messages about restarts that are asked for from outside, by --restart and --drain.

// Request of an agent's host to the coordinator: start all workers again.
struct RestartRequest {
  int number = 0;         // number among those of this agent, for the reply
  std::string drained{};  // host that leaves the job before; empty: none
  std::string sender{};   // "ada (pid 123) on n1"
  friend bool operator==(const RestartRequest&, const RestartRequest&) = default;
};

// The answer to it.
struct RestartReply {
  int number = 0;
  bool accepted = false;
  std::string what{};  // sentence: what follows, or why nothing does
  std::string hint{};
  friend bool operator==(const RestartReply&, const RestartReply&) = default;
};

// Messages about looks at nodes between two attempts, and what such a look has found.
// It is for --check=auto and --check-command.

// Finding that keeps a node from another attempt.
struct Unfit {
  std::string what{};  // "GPU 3: GPU is lost"; empty: it is fit
  std::string remedy{};
  bool may_stay = false;  // workers can run here where no other node is left
  friend bool operator==(const Unfit&, const Unfit&) = default;
};

// Order to look, while the workers of this attempt are being stopped.
struct Look {
  Attempt attempt;
  friend bool operator==(const Look&, const Look&) = default;
};

// The answer, always.
struct Looked {
  Attempt attempt;
  Unfit unfit{};
  friend bool operator==(const Looked&, const Looked&) = default;
};

// Question about the whole job, from a process that asks this agent by --status or --stacks.
struct JobQuestion {
  bool stacks = false;
  friend bool operator==(const JobQuestion&, const JobQuestion&) = default;
};

// Question to an agent about its workers, for --status; the state machines ignore it.
struct StatusQuestion {
  int question = 0;     // number of the question
  bool stacks = false;  // asks where they are, too
  friend bool operator==(const StatusQuestion&, const StatusQuestion&) = default;
};

// Answer to StatusQuestion.
struct StatusAnswer {
  int question = 0;
  status::NodeStatus status;
  friend bool operator==(const StatusAnswer&, const StatusAnswer&) = default;
};

// Answer to JobQuestion: each node that told of its workers, then the job, which names those that did not.
struct NodeShown {
  bool stacks = false;
  status::NodeStatus node;
  friend bool operator==(const NodeShown&, const NodeShown&) = default;
};
struct JobShown {
  bool stacks = false;
  status::JobStatus job;
  friend bool operator==(const JobShown&, const JobShown&) = default;
};

// ---- --profile: the coordinator passes a request on to every agent, and each part of the answer back to the
// one that asks

inline constexpr Milliseconds k_shortest_profile{1000}, k_longest_profile{300'000};
inline constexpr std::size_t k_max_profile_part = std::size_t{768} << 10;  // bytes of a line

struct ProfileRequest {
  int number = 0;  // number among those of the asking agent
  int asker = 0;   // its connection to the coordinator, which fills it in
  Milliseconds duration{10'000};
  int limit = 0;  // bytes of a rank's answer
  friend bool operator==(const ProfileRequest&, const ProfileRequest&) = default;
};

struct ProfilePart {
  int number = 0, asker = 0;  // numbers in the request
  int agents = 0;             // number of agents that are asked: in the first part, from the coordinator
  bool last = false;          // last part of its agent
  std::string line{};         // profile::render_rank(), or render_asked()
  friend bool operator==(const ProfilePart&, const ProfilePart&) = default;
};

// ---- --slow-notice

// Question of an agent for the coordinator's clock. Both clocks in microseconds.
struct ClockQuestion {
  std::int64_t asked = 0;  // on the agent's clock, for the reply
  friend bool operator==(const ClockQuestion&, const ClockQuestion&) = default;
};

struct ClockReply {
  std::int64_t asked = 0;
  std::int64_t now = 0;
  friend bool operator==(const ClockReply&, const ClockReply&) = default;
};

// Collectives of an agent's ranks, on the coordinator's clock.
struct CollectivesSeen {
  Attempt attempt;
  int look = 0;  // number of the look: that clock divided by the interval between two
  slow::NodeTrace trace;
  friend bool operator==(const CollectivesSeen&, const CollectivesSeen&) = default;
};

// State of the job that every agent is sent, so that the job can continue without the coordinator.

inline constexpr std::size_t k_max_successors = 8;  // all of different hosts
inline constexpr std::size_t k_max_successor_addresses = 4;
inline constexpr std::size_t k_max_place_ranges = 256;  // in one roll; if it has more, no agent takes over
inline constexpr std::size_t k_max_rolls = 8;

struct PlaceRange {
  int first = 0;
  int last = 0;
  friend bool operator==(const PlaceRange&, const PlaceRange&) = default;
};

// Convert ascending places to ranges, and back.
std::vector<PlaceRange> to_ranges(const std::vector<AgentIndex>& places);
std::vector<AgentIndex> from_ranges(const std::vector<PlaceRange>& ranges);

// The agents that were here when an attempt was begun, spares too: those that count for a majority.
struct Roll {
  int number = 0;  // from 1 on, one more whenever the agents change
  std::vector<PlaceRange> agents;
  friend bool operator==(const Roll&, const Roll&) = default;
};

// An agent that listens, and coordinates when those before it are lost.
struct Successor {
  AgentIndex place;
  std::string host;
  std::vector<std::string> addresses;  // numeric, best first
  int port = 0;
  friend bool operator==(const Successor&, const Successor&) = default;
};

// Request for the end of the job.
struct Ending {
  int signal = 0;
  std::string host;  // host of the signalled process
  friend bool operator==(const Ending&, const Ending&) = default;
};

// Sent before each Start and Standby, and when it changes meanwhile.
struct Roster {
  std::vector<Roll> rolls;            // each needs a majority (quorum.hpp); the latest is the last
  AgentIndex coordinator;             // place of the coordinator
  std::string host;                   // host of the coordinator
  std::vector<Successor> successors;  // in order; never the coordinator
  Attempt attempt;                    // the latest that was begun, or is about to
  int used_restarts = 0;
  std::string launch_id;
  std::optional<Ending> ending;  // once all workers have stopped
  // Part of the agent that receives the roster:
  AgentIndex own;
  std::optional<int> slot;  // place among those that take part; nullopt: it waits
  bool counts = false;      // in the latest roll; else at most one that was there before it
  bool aside = false;       // set aside, as it failed first again and again; used if too few others are there
  int number() const { return rolls.empty() ? 0 : rolls.back().number; }
  friend bool operator==(const Roster&, const Roster&) = default;
};

// State that an agent joins the next coordinator with after it has lost its own.
struct Survivor {
  Roster roster;           // latest roster of the last coordinator
  std::vector<int> ended;  // places of coordinators whose ddprun has ended; what became of others is unknown
  friend bool operator==(const Survivor&, const Survivor&) = default;
};

}  // namespace ddprun::rendezvous
