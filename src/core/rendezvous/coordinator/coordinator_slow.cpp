// Ranks that the others wait for: seen by their agents, judged here by what all have seen.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/coordinator_events.hpp"

namespace ddprun::rendezvous {

namespace {

// Looks at where a slow rank is, one for each look at its collectives, before its notice does without the
// place where it is while the others wait.
constexpr int k_most_places = 5;

}  // namespace

void Coordinator::handle(ConnectionId connection, const ClockQuestion& question, TimePoint now) {
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  actions_.push_back(SendTo{connection, ClockReply{question.asked, time.count()}});
}

void Coordinator::handle(ConnectionId connection, const CollectivesSeen& seen, TimePoint now) {
  if (state_ != State::running) return;
  const std::vector<AgentIndex> agents = members_.participants();
  const auto runs = [this](AgentIndex agent) { return members_.takes_part(agent) && !at(agent).succeeded; };
  slow_.note(members_.here().at(connection).value, seen.look, seen.trace,
             static_cast<std::size_t>(std::ranges::count_if(agents, runs)), now);
  for (const auto& [rank, seconds] : slow_.take_seconds(now)) record(told::waited(attempt_, rank, seconds));
  if (!slow_due_) slow_due_ = slow_.take_slow(now);
  if (!slow_due_ || std::exchange(slow_due_->look, seen.look) == seen.look) return;
  status_round_.want(StatusRound::Purpose::slow);
  ask(now);
}

// Tells of the slow rank once it is seen where it is while the others wait, or after some looks.
void Coordinator::tell_slow(const status::JobStatus& job, TimePoint now) {
  if (state_ != State::running || !slow_due_) return;
  auto notice = slow::describe_slow(job, *slow_due_, settings_.hang.slow->window);
  if (notice && !notice->seen_late && ++slow_due_->places < k_most_places) return;
  slow_due_.reset();
  if (!notice) return;
  notice->what += replace_slow(notice->worker.rank, now);
  record(told::slow(attempt_, *notice));
  actions_.push_back(ShowNotice{{notice->what, notice->hint}});
}

// Gives the ranks of a slow rank's node to a spare (--on-slow). Returns what follows, for the notice.
std::string Coordinator::replace_slow(int rank, TimePoint now) {
  using enum options::OnSlow;
  const options::OnSlow action = settings_.hang.on_slow.value;
  if (action == report) return {};
  const auto& all = members_.participants();
  const auto owner =
      std::ranges::find_if(all, [&](AgentIndex agent) { return runs_rank(agent, GlobalRank{rank}); });
  if (owner == all.end() || *owner == settings_.own)
    return "; its node coordinates the job and is not replaced";
  if (!members_.set_aside(*owner)) return "; no spare can take the place of its node";
  if (action == replace_at_restart) return "; a spare takes the place of its node at the next restart";
  changes_.push_back(fmt::format("{} is replaced, as its rank {} is slow", host_of(*owner), rank));
  begin_stop({attempt_}, now);
  return "; a spare takes the place of its node";
}

}  // namespace ddprun::rendezvous
