// Checkpoints in the nodes' memory: what each attempt starts from, and the end of the job while the newest
// one is being flushed.
#include <fmt/format.h>

#include "allocation/hostlist.hpp"
#include "rendezvous/coordinator/coordinator.hpp"

namespace ddprun::rendezvous {

void Coordinator::handle(ConnectionId connection, const CheckpointsHeld& message, TimePoint) {
  const AgentIndex agent = members_.here().at(connection);
  checkpoints_.note(agent, announced(agent).host, message.held);
}

std::map<AgentIndex, std::optional<checkpoint::Restore>> Coordinator::begin_checkpoints(TimePoint now) {
  auto restores = checkpoints_.begin_attempt(members_, attempt_, now);
  if (const std::string loss = checkpoints_.take_loss(); !loss.empty())
    actions_.push_back(ShowNotice{{loss, {}}});
  return restores;
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
    for (auto& [agent, order] : checkpoints_.take_orders(members_, settings_.own, now))
      send(agent, CheckpointOrder{std::move(order)});
    if (const auto end = checkpoints_.take_end(job_end_, now)) {
      std::vector<std::string> late;
      for (const AgentIndex agent : checkpoints_.late()) late.push_back(host_of(agent));
      if (auto notice = checkpoints_.describe_unflushed(allocation::compress_hostlist(late)))
        actions_.push_back(ShowNotice{std::move(*notice)});
      finish(*end);
    }
  }
  update_status(now);
}

}  // namespace ddprun::rendezvous
