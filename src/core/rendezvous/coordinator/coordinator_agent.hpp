// State of one agent as the coordinator knows it, beside its place (membership.hpp).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "rendezvous/launch_failure.hpp"
#include "rendezvous/message.hpp"
#include "rendezvous/roster.hpp"
#include "report/report.hpp"
#include "report/root_cause.hpp"

namespace ddprun::rendezvous {

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

}  // namespace ddprun::rendezvous
