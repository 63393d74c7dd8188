// Ranks that the others wait for: seen by their agents, judged here by what all have seen.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "rendezvous/coordinator/coordinator.hpp"
#include "rendezvous/coordinator/coordinator_events.hpp"

namespace ddprun::rendezvous {

void SlowRanks::add_to(status::JobStatus& job) const {
  const auto shares = watch.shares();
  for (status::NodeStatus& node : job.here) {
    for (status::WorkerStatus& worker : node.workers) {
      if (const auto found = shares.find(worker.rank); found != shares.end())
        worker.waited_percent = static_cast<int>(std::lround(100 * found->second));
    }
  }
  if (const auto step = watch.step()) {
    job.step = step->now;
    job.step_hour_ago = step->hour_ago;
  }
}

void Coordinator::handle(ConnectionId connection, const ClockQuestion& question, TimePoint now) {
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  actions_.push_back(SendTo{connection, ClockReply{question.asked, time.count()}});
}

void Coordinator::handle(ConnectionId connection, const CollectivesSeen& seen, TimePoint now) {
  if (state_ != State::running) return;
  const std::vector<AgentIndex> agents = members_.participants();
  const auto runs = [this](AgentIndex agent) { return members_.takes_part(agent) && !at(agent).succeeded; };
  slow_.watch.note(members_.here().at(connection).value, seen.look, seen.trace,
                   static_cast<std::size_t>(std::ranges::count_if(agents, runs)), now);
  for (const auto& [rank, seconds] : slow_.watch.take_seconds(now))
    record(told::waited(attempt_, rank, seconds));
  if (!slow_.due) {
    slow_.due = slow_.watch.take_slow(now);
    slow_.places = 0;
  }
  if (!slow_.due || seen.look == slow_.look) return;
  slow_.look = seen.look;
  status_round_.want(StatusRound::Purpose::slow);
  ask(now);
}

// Tells of the slow rank once it is seen where it is while the others wait, or after some looks.
void Coordinator::tell_slow(const status::JobStatus& job, TimePoint now) {
  if (state_ != State::running || !slow_.due) return;
  auto notice = status::describe_slow(job, *slow_.due, settings_.hang.slow->window);
  if (notice && !notice->seen_late && ++slow_.places < SlowRanks::k_most_places) return;
  slow_.due.reset();
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
