// Which agents take part in an attempt where their number is not fixed: who comes late, who is lost.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ddprun/base/text.hpp"
#include "ddprun/rendezvous/coordinator.hpp"
#include "ddprun/rendezvous/launch_failure.hpp"

namespace ddprun::rendezvous {

// With one agent a task, hosts.
int Coordinator::nodes_here() const {
  std::set<std::string> hosts;
  for (const auto& [connection, agent] : by_connection_) {
    const plan::Announcement& announced = *at(agent).announcement;
    if (!announced.fixed_rank) return static_cast<int>(by_connection_.size());
    hosts.insert(to_lower(short_host_name(announced.host)));
  }
  return static_cast<int>(hosts.size());
}

bool Coordinator::enough_nodes() const {
  return at({0}).connection &&
         nodes_here() >= (settings_.elastic ? settings_.elastic->least : settings_.agents);
}

std::string Coordinator::describe_too_few() const {
  return fmt::format("{} left, and --nnodes asks for {} at least", count_of(nodes_here(), "node"),
                     settings_.elastic->least);
}

void Coordinator::begin_last_call(TimePoint now) {
  const bool begins = settings_.elastic && settings_.elastic->last_call && !last_call_ && enough_nodes();
  if (begins) last_call_ = now + *settings_.elastic->last_call;
}

// All that are here.
std::vector<plan::Announcement> Coordinator::choose_participants() {
  std::vector<plan::Announcement> announcements;
  participants_.clear();
  for (int index = 0; index < settings_.agents; ++index) {
    Agent& agent = at({index});
    agent.position.reset();
    if (!agent.connection) continue;
    agent.position = participants_.size();
    participants_.push_back({index});
    announcements.push_back(*agent.announcement);
  }
  return announcements;
}

bool Coordinator::members_changed() const {
  return std::any_of(agents_.begin(), agents_.end(), [](const Agent& agent) {
    return agent.connection.has_value() != agent.position.has_value();
  });
}

void Coordinator::restart_changed(TimePoint now) {
  const std::string why = std::exchange(change_, {});
  next_attempt();
  record_restart(why + "; starting all workers again");
  const std::string nodes = fmt::format("{} of {}", nodes_here(), settings_.agents);
  actions_.push_back(ShowNotice{{fmt::format("{}; starting all workers again on {} nodes", why, nodes), {}}});
  form_world(now);
}

// ---- late joins

// The place it had on this host before, else any that is free.
std::optional<AgentIndex> Coordinator::find_late_place(const plan::Announcement& announcement) const {
  if (announcement.agent) {
    return at(*announcement.agent).connection ? std::nullopt : announcement.agent;
  }
  for (int index = 0; index < settings_.agents; ++index) {
    const Agent& agent = at({index});
    if (!agent.connection && agent.announcement && same_host(agent.announcement->host, announcement.host))
      return AgentIndex{index};
  }
  return free_place();
}

std::optional<Error> Coordinator::clash_with_others(AgentIndex place, const Join& join) const {
  std::vector<plan::Announcement> all;
  for (int index = 0; index < settings_.agents; ++index) {
    if (AgentIndex{index} == place) {
      all.push_back(join.announcement);
      all.back().agent = place;
      if (!join.announcement.agent) all.back().node = NodeIndex{index};
    } else if (at({index}).connection) {
      all.push_back(*at({index}).announcement);
    }
  }
  try {
    plan::make_world_plan(all, plan::Gaps::closed);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void Coordinator::join_late(ConnectionId connection, const Join& join, TimePoint now) {
  if (settings_.elastic->grow == options::Grow::never) return refuse_late(connection, join);
  const std::string host = printable(join.announcement.host);
  if (join.failure) {
    const supervise::Cause cause = describe_failed_start({{host, *join.failure}}, {});
    actions_.push_back(SendTo{connection, Finish{cause, {}, {}, false}});
    actions_.push_back(CloseConnection{connection});
    return;
  }
  const auto place = find_late_place(join.announcement);
  if (!place) {
    return refuse(connection, fmt::format("the job has all its {} nodes without {}", settings_.agents, host),
                  "start each ddprun of the job only once");
  }
  if (const auto clash = clash_with_others(*place, join))
    return refuse(connection, clash->what(), clash->hint());
  at(*place) = {};
  at(*place).reached = join.reached;
  at(*place).by_arrival = !join.announcement.agent;
  place_agent(*place, connection, join.announcement);
  record_join(*place);
  if (settings_.elastic->grow != options::Grow::now) return;
  if (state_ == State::probing) return form_world(now);
  const bool runs = state_ == State::opening || state_ == State::running;
  if (!runs || waits_to_restart()) return;  // the attempt that follows has it
  change_ = fmt::format("{} has joined", host);
  if (state_ == State::opening) return restart_changed(now);
  begin_stop({attempt_}, now);
}

// ---- losses

// False where the job ends by it.
bool Coordinator::goes_on_without(AgentIndex agent, const std::string& sentence, TimePoint now) {
  const bool here = at(agent).connection.has_value();  // it lives, and may have workers
  if (here || !enough_nodes()) return false;
  const bool took_part = at(agent).position.has_value();
  if (!took_part || (state_ == State::running && at(agent).succeeded)) return true;
  if (state_ == State::stopping && (final_cause_ || late_cause_)) return false;
  if (waits_to_restart()) {
    actions_.push_back(ShowNotice{{sentence + "; the workers start again without it", {}}});
    return true;
  }
  if (state_ != State::probing && change_.empty()) change_ = sentence;
  if (state_ == State::running)
    begin_stop({attempt_}, now);
  else if (state_ == State::stopping)
    check_stopped(now);
  else if (state_ == State::opening)
    restart_changed(now);
  else
    form_world(now);
  return true;
}

}  // namespace ddprun::rendezvous
