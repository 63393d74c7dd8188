// What the coordinator tells of the job while it runs.
#include <fmt/format.h>

#include <utility>

#include "ddprun/rendezvous/coordinator.hpp"
#include "ddprun/rendezvous/waiting_text.hpp"

namespace ddprun {

Coordinator::Actions Coordinator::on_status_request(TimePoint now) {
  std::set<ConnectionId> agents;
  for (const auto& [connection, agent] : by_connection_) agents.insert(connection);
  if (state_ == State::finished) return {};
  const auto number = status_round_.begin(agents, now);
  if (!number) return {};
  for (const ConnectionId connection : agents)
    actions_.push_back(SendTo{connection, StatusQuestion{*number}});
  return std::exchange(actions_, {});
}

void Coordinator::handle(ConnectionId connection, const StatusAnswer& answer, TimePoint now) {
  status_round_.note(connection, answer);
  if (state_ != State::finished && status_round_.is_over(now)) show_job();
}

void Coordinator::show_job() {
  JobStatus status;
  status.launch_id = settings_.launch_id;
  status.phase = describe_phase();
  status.attempt = attempt_.value;
  status.max_restarts = settings_.max_restarts;
  status.nodes = settings_.agents;
  for (const Assignment& assignment : world_.assignments) {
    status.nodes = assignment.node_count;
    status.workers = assignment.world_size;
  }
  for (const ConnectionId connection : status_round_.silent()) {
    const auto found = by_connection_.find(connection);
    if (found != by_connection_.end()) status.silent.push_back(host_of(found->second));
  }
  status.here = status_round_.take_answers();
  actions_.push_back(ShowJob{std::move(status)});
}

std::string Coordinator::describe_phase() const {
  switch (state_) {
    case State::gathering:
      return "waiting for " + describe_missing(missing(), settings_.agents, settings_.peers);
    case State::probing:
      return "looking for an address that all nodes reach";
    case State::opening:
      return "starting";
    case State::running:
      return "running";
    case State::stopping:
      return "stopping the workers";
    case State::finished:
      break;
  }
  return "ended";
}

}  // namespace ddprun
