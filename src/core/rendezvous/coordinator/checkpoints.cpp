#include "rendezvous/coordinator/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/neighbours.hpp"
#include "plan/network_order.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator/stage_sources.hpp"
#include "rendezvous/waiting_text.hpp"

namespace ddprun::rendezvous {

namespace {

constexpr Milliseconds k_before_kill{2000};  // in which all are told of the end

staging::Server checkpoint_server(const Membership& members, AgentIndex agent) {
  const plan::Announcement& announced = *members.at(agent).announcement;
  return server_of(announced, announced.checkpoint_door);
}

bool serves(const Membership& members, AgentIndex agent) {
  return members.is_here(agent) && !members.at(agent).announcement->checkpoint_door.empty();
}

}  // namespace

Checkpoints::Checkpoints(const std::optional<CheckpointSettings>& settings)
    : settings_(settings),
      flush_(settings && !settings->flush.empty(),
             settings ? settings->flush_every : std::optional<Milliseconds>{}) {}

void Checkpoints::note(AgentIndex agent, const std::string& host, const checkpoint::Held& held) {
  if (!settings_) return;
  known_.note(agent, host, held);
  is_new_ = true;
  if (const auto all = known_.complete(); !all.empty())
    reached_ = std::max(reached_.value_or(all.front()), all.front());
}

void Checkpoints::forget(AgentIndex agent) {
  known_.forget(agent);
  told_.erase(agent);
  is_new_ = true;
}

std::map<AgentIndex, std::optional<checkpoint::Restore>> Checkpoints::begin_attempt(const Membership& members,
                                                                                    Attempt attempt,
                                                                                    TimePoint now) {
  std::map<AgentIndex, std::optional<checkpoint::Restore>> restores;
  if (!settings_) return restores;
  const auto start = known_.newest();
  std::map<AgentIndex, checkpoint::Holder> holders;
  for (const auto& [rank, agents] : known_.holders(start.value_or(checkpoint::Saved{}))) {
    for (const auto& [agent, own] : agents) {
      if (!serves(members, agent)) continue;
      checkpoint::Holder& holder = holders[agent];
      if (holder.ranks.empty()) holder.server = checkpoint_server(members, agent);
      holder.ranks.push_back(rank);
    }
  }
  for (const AgentIndex agent : members.participants()) {
    if (!start) break;
    checkpoint::Restore& restore = restores[agent].emplace();
    restore.step = start->step;
    restore.world = start->world;
    restore.from_flush = known_.published() == start;
    restore.own = !known_.is_stale(agent, start->step);
    for (const auto& [other, holder] : holders) {
      if (other != agent && restore.holders.size() < k_max_holders) restore.holders.push_back(holder);
    }
  }
  note_loss(start);
  const std::int64_t from = start ? start->step : -1;
  known_.begin_attempt(attempt.value, from, members.participants());
  flush_.begin_attempt(from, now);
  signal_at_.reset();
  is_new_ = true;
  return restores;
}

void Checkpoints::note_loss(const std::optional<checkpoint::Saved>& start) {
  const auto reached = std::exchange(reached_, start);
  if (!reached || (start && start->step >= reached->step)) return;
  std::string from = "anew";
  if (start) from = fmt::format("from step {}", start->step);
  if (start && known_.published() == start) from += " in " + settings_->flush;
  loss_ = fmt::format("no node is left that has step {} of {}; the workers start {}", reached->step,
                      describe_ranks(known_.missing(*reached)), from);
}

std::map<AgentIndex, AgentIndex> Checkpoints::neighbours(const Membership& members) const {
  std::vector<checkpoint::Place> places;
  for (const AgentIndex agent : members.participants()) {
    if (!serves(members, agent)) continue;
    const plan::Announcement& announced = *members.at(agent).announcement;
    places.push_back({agent, announced.host, plan::unit_of(announced.network)});
  }
  return checkpoint::choose_neighbours(places);
}

std::vector<std::pair<AgentIndex, checkpoint::Order>> Checkpoints::take_orders(const Membership& members,
                                                                               AgentIndex own,
                                                                               TimePoint now) {
  std::vector<std::pair<AgentIndex, checkpoint::Order>> orders;
  const bool is_due = flush_.due() && now >= *flush_.due();
  if (!settings_ || (!std::exchange(is_new_, false) && !is_due)) return orders;
  flush_.look(known_, now);
  checkpoint::Order common;
  common.complete = known_.kept(flush_.step());
  known_.note_kept(common.complete);
  common.flush = flush_.step();
  common.flush_world = flush_.world();
  common.ending = holds_end();
  const auto copied = neighbours(members);
  for (const auto& [connection, agent] : members.here()) {
    if (!serves(members, agent)) continue;
    checkpoint::Order order = common;
    if (const auto next = copied.find(agent); next != copied.end())
      order.copy_from = checkpoint_server(members, next->second);
    order.flush_ranks = flush_.ranks_of(agent);
    if (agent == own && flush_.is_written()) order.publish = flush_.step();
    checkpoint::Order& told = told_[agent];
    if (order != told) orders.emplace_back(agent, told = order);
  }
  return orders;
}

// ---- the end of the job

void Checkpoints::note_signal(TimePoint now) {
  if (!signal_at_) signal_at_ = now;
  begin_end();
  is_new_ = true;
}

bool Checkpoints::is_pending() const {
  const auto all = known_.complete();
  const auto published = known_.published();
  return flush_.step() || (!all.empty() && (!published || all.front().step > published->step));
}

bool Checkpoints::hold(const supervise::Cause& cause) {
  if (!settings_ || settings_->flush.empty() || given_up_) return false;
  if (!end_ && !is_pending()) return false;
  begin_end();
  is_new_ = true;
  if (!end_) end_ = cause;
  return true;
}

void Checkpoints::give_up() {
  given_up_ = true;
  end_.reset();
  limit_.reset();
}

std::optional<supervise::Cause> Checkpoints::take_end(const CoordinatorJobEnd& job, TimePoint now) {
  if (!end_) return std::nullopt;
  if (!held_at_) held_at_ = now;
  limit_ = *held_at_ + settings_->flush_limit;
  if (signal_at_ && settings_->kill_after) {
    limit_ = std::min(*limit_, *signal_at_ + std::max(*settings_->kill_after - k_before_kill, job.grace));
  } else if (!signal_at_ && job.at) {
    limit_ = std::min(*limit_, *job.at);
  }
  if (is_pending() && now < *limit_) return std::nullopt;
  const auto cause = end_;
  give_up();
  return cause;
}

std::string Checkpoints::describe_flush() const {
  return fmt::format("waiting for step {} to be written to {}", flush_.step().value_or(0), settings_->flush);
}

std::optional<allocation::Notice> Checkpoints::describe_unflushed(const std::string& hosts) const {
  if (!is_pending()) return std::nullopt;
  const auto published = known_.published();
  const std::string there = published ? fmt::format("step {}", published->step) : "no checkpoint";
  return allocation::Notice{
      fmt::format("step {} could not be written to {} in time{}; {} is there",
                  flush_.step().value_or(known_.complete().empty() ? 0 : known_.complete().front().step),
                  settings_->flush, hosts.empty() ? "" : ", not by " + hosts, there),
      "--checkpoint-flush-every writes one from time to time before the end"};
}

}  // namespace ddprun::rendezvous
