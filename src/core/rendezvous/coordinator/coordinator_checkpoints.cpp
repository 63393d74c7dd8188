// Checkpoints in the nodes' memory, and the end of the job while the newest one is being flushed.
#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/coordinator_events.hpp"

namespace ddprun::rendezvous {

void Coordinator::handle(ConnectionId connection, const CheckpointsHeld& message, TimePoint) {
  const AgentIndex agent = members_.here().at(connection);
  checkpoints_.note(agent, announced(agent).host, message.held);
}

// Waits as if agents were still stopping their workers; none is any more.
void Coordinator::hold_end() {
  state_ = State::stopping;
  state_deadline_.reset();
  for (Agent& agent : agents_) {
    agent.stopped = true;
    agent.looks = false;
  }
}

void Coordinator::settle(TimePoint now) {
  if (state_ != State::finished) {
    for (auto& [agent, order] : checkpoints_.take_orders(members_, state_ == State::running, now))
      send(agent, CheckpointOrder{std::move(order)});
    for (const auto& [step, folder] : checkpoints_.take_news())
      record(told::checkpoint(attempt_, step, folder));
    const auto end = checkpoints_.take_end(job_end_, now);
    for (allocation::Notice& notice : checkpoints_.take_notices())
      actions_.push_back(ShowNotice{std::move(notice)});
    if (end) finish(*end);
  }
  update_status(now);
}

}  // namespace ddprun::rendezvous
