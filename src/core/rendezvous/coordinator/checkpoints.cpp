#include "rendezvous/coordinator/checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/hostlist.hpp"
#include "checkpoint/register.hpp"
#include "plan/network_order.hpp"
#include "rendezvous/codec.hpp"
#include "rendezvous/coordinator/stage_sources.hpp"
#include "rendezvous/missing_agents.hpp"

namespace ddprun::rendezvous {

namespace {

using checkpoint::Saved;

constexpr Milliseconds k_before_kill{2000};  // in which all are told of the end

std::map<AgentIndex, staging::Server> servers_of(const Membership& members) {
  std::map<AgentIndex, staging::Server> servers;
  for (const auto& [connection, agent] : members.here()) {
    const plan::Announcement& announced = *members.at(agent).announcement;
    if (!announced.checkpoint_door.empty()) servers[agent] = server_of(announced, announced.checkpoint_door);
  }
  return servers;
}

std::map<AgentIndex, AgentIndex> neighbours_of(const Membership& members,
                                               const std::map<AgentIndex, staging::Server>& servers) {
  std::vector<checkpoint::Place> places;
  for (const AgentIndex agent : members.participants()) {
    if (!servers.contains(agent)) continue;
    const plan::Announcement& announced = *members.at(agent).announcement;
    places.push_back({agent, announced.host, plan::unit_of(announced.network)});
  }
  return checkpoint::choose_neighbours(places);
}

}  // namespace

Checkpoints::Checkpoints(const std::optional<CheckpointSettings>& settings, AgentIndex own)
    : settings_(settings),
      own_(own),
      flush_(settings && !settings->flush.empty(), settings ? settings->flush_every : std::nullopt,
             own.value) {}

void Checkpoints::note(AgentIndex agent, const std::string& host, const checkpoint::Held& held) {
  if (!settings_) return;
  known_.note(agent, host, held);
  is_new_ = is_untold_ = true;
  if (const auto all = known_.complete(); !all.empty())
    reached_ = std::max(reached_.value_or(all.front()), all.front());
}

void Checkpoints::forget(AgentIndex agent) {
  known_.forget(agent);
  told_.erase(agent);
  is_new_ = are_others_ = true;
}

Checkpoints::Restores Checkpoints::begin_attempt(const Membership& members, Attempt attempt, TimePoint now) {
  Restores restores;
  if (!settings_) return restores;
  const auto start = known_.newest();
  const auto common = start ? std::optional(restore_of(*start)) : std::nullopt;
  const auto holders = common && !common->only_flush ? holders_of(members, *start) : Holders{};
  for (const AgentIndex agent : members.participants()) {
    if (!start) break;
    checkpoint::Restore& restore = (restores[agent] = common).value();
    restore.own = !restore.only_flush && !known_.is_stale(agent, start->step);
    for (const auto& [other, holder] : holders) {
      if (other != agent && restore.holders.size() < k_max_holders) restore.holders.push_back(holder);
    }
  }
  tell_loss(start);
  kept_told_ = start ? start->step : -1;
  const std::int64_t from = checkpoint::begun_from(common);
  known_.begin_attempt(attempt.value, from, members.participants());
  flush_.begin_attempt(attempt.value * members.places() + own_.value, from, now);
  if (common && common->only_flush) flush_.note_start(*start);
  signal_at_.reset();
  is_new_ = are_others_ = true;
  return restores;
}

// A step of the flush folder may be of attempts that nothing in memory goes on from: it was published as one
// began from an older step, or by another coordinator, or another job.
checkpoint::Restore Checkpoints::restore_of(const Saved& start) const {
  checkpoint::Restore restore{start.step, start.world};
  const bool is_published = known_.published() == start, is_same = flush_.is_same_history(start);
  restore.from_flush = is_published && (is_same || !known_.missing(start).empty());
  restore.only_flush = restore.from_flush && !is_same;
  return restore;
}

Checkpoints::Holders Checkpoints::holders_of(const Membership& members, const Saved& start) const {
  Holders holders;
  for (const auto& [agent, server] : servers_of(members)) holders[agent].server = server;
  for (const auto& [rank, agents] : known_.holders(start)) {
    for (const auto& [agent, own] : agents) holders[agent].ranks.push_back(rank);
  }
  std::erase_if(holders, [](const auto& each) { return each.second.ranks.empty(); });
  return holders;
}

void Checkpoints::tell_loss(const std::optional<Saved>& start) {
  const auto reached = std::exchange(reached_, start);
  if (!reached || (start && start->step >= reached->step)) return;
  std::string from = start ? fmt::format("from step {}", start->step) : "anew";
  if (start && known_.published() == start) from += " in " + settings_->flush;
  notices_.push_back({fmt::format("no node is left that has step {} of {}; the workers start {}",
                                  reached->step, describe_ranks(known_.missing(*reached)), from),
                      {}});
}

Checkpoints::Orders Checkpoints::take_orders(const Membership& members, bool saving, TimePoint now) {
  Orders orders;
  const bool is_due = flush_.due() && now >= *flush_.due();
  if (!settings_ || (!std::exchange(is_new_, false) && !is_due)) return orders;
  flush_.look(known_, now);
  checkpoint::Order common;
  if (const auto running = flush_.running()) {
    common.flush = running->step;
    common.flush_world = running->world;
    common.flush_number = flush_.number();
  }
  common.complete = saving || common_.complete.empty() ? known_.kept(common.flush) : common_.complete;
  known_.note_kept(common.complete);
  common.ending = holds_end();
  if (flush_.is_written()) common.publish = common.flush;
  const bool same = !std::exchange(are_others_, false) && told_.size() == members.here().size() &&
                    common == common_ && flush_.asked() == asked_;
  if (same) return orders;  // most of what is said of parts changes nothing for any agent
  common_ = common;
  asked_ = flush_.asked();
  const auto servers = servers_of(members);
  const auto neighbours = neighbours_of(members, servers);
  copies_ = !neighbours.empty();
  for (const auto& [connection, agent] : members.here()) {
    checkpoint::Order order = common;
    if (const auto next = neighbours.find(agent); next != neighbours.end())
      order.copy_from = servers.at(next->second);
    order.flush_ranks = flush_.ranks_of(agent);
    if (agent != own_) order.publish.reset();
    checkpoint::Order& told = told_[agent];
    if (order != told) orders.emplace_back(agent, told = order);
  }
  return orders;
}

Checkpoints::News Checkpoints::take_news() {
  News news;
  if (!settings_ || !std::exchange(is_untold_, false)) return news;
  const auto all = known_.complete();
  const auto newest = all.empty() ? std::nullopt : std::optional(all.front());
  const auto note = [&](std::int64_t& told, const std::optional<Saved>& found, const std::string& folder) {
    if (found && found->step > told) news.emplace_back(told = found->step, folder);
  };
  note(kept_told_, copies_ ? known_.newest_safe() : newest, {});
  note(published_told_, known_.published(), settings_->flush);
  return news;
}

// ---- the end of the job

void Checkpoints::note_signal(TimePoint now) {
  if (!signal_at_) signal_at_ = now;
  begin_end();
}

void Checkpoints::begin_end() {
  flush_.begin_end(known_);
  is_new_ = true;
}

std::optional<std::int64_t> Checkpoints::pending() const {
  const auto all = known_.complete();
  const bool is_newer = !all.empty() && (!known_.published() || all.front().step > known_.published()->step);
  if (flush_.running()) return flush_.running()->step;
  return is_newer ? std::optional(all.front().step) : std::nullopt;
}

bool Checkpoints::hold(const report::Cause& cause) {
  if (!settings_ || settings_->flush.empty() || given_up_ || (!end_ && !pending())) return false;
  begin_end();
  if (end_) return true;
  end_ = cause;
  notices_.push_back(
      {fmt::format("writing step {} to {} before the job ends", *pending(), settings_->flush), {}});
  return true;
}

void Checkpoints::give_up() {
  given_up_ = true;
  end_.reset();
  limit_.reset();
}

std::optional<report::Cause> Checkpoints::take_end(const CoordinatorJobEnd& job, TimePoint now) {
  if (!end_) return std::nullopt;
  if (!held_at_) held_at_ = now;
  limit_ = *held_at_ + settings_->flush_limit;
  if (signal_at_ && settings_->kill_after) {
    limit_ = std::min(*limit_, *signal_at_ + std::max(*settings_->kill_after - k_before_kill, job.grace));
  } else if (!signal_at_ && job.at) {
    limit_ = std::min(*limit_, *job.at);
  }
  const auto step = pending();
  if (step && now < *limit_ && !cut_short_) return std::nullopt;
  if (step) tell_unflushed(*step);
  const auto cause = end_;
  give_up();
  return cause;
}

void Checkpoints::tell_unflushed(std::int64_t step) {
  std::vector<std::string> late;
  for (const AgentIndex agent : flush_.awaited()) late.push_back(known_.host_of(agent));
  const auto published = known_.published();
  notices_.push_back(
      {fmt::format("step {} could not be written to {} in time{}; {} is there", step, settings_->flush,
                   late.empty() ? "" : ", not by " + allocation::compress_hostlist(late),
                   published ? fmt::format("step {}", published->step) : "no checkpoint"),
       "--checkpoint-flush-every writes one from time to time before the end"});
}

}  // namespace ddprun::rendezvous
