#include "checkpoint/flush.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::checkpoint {

void Flush::begin_attempt(int number, std::int64_t from, TimePoint now) {
  next_number_ = number;
  ending_ = false;
  for (auto* const step : {&running_, &published_})
    if (*step && (*step)->step > from) step->reset();
  if (every_ && !due_) due_ = now + *every_;
}

void Flush::begin_end(const Register& known) {
  const auto all = known.complete();
  if (!std::exchange(ending_, true) && running_ && !all.empty() && all.front() > *running_) running_.reset();
}

void Flush::note_job_end(TimePoint end) {
  if (job_end_ == end) return;
  job_end_ = end;
  before_end_ = end - k_before_end;
}

void Flush::look(const Register& known, TimePoint now) {
  if (!wanted_) return;
  const Saved published = known.published().value_or(Saved{-1, 0});
  const bool failed = running_ && (written_.merge(known.flushed(running_->step, number_)), !assign(known));
  if (is_written() && running_ == published) published_ = running_;
  if (running_ && (failed || published.step >= running_->step)) running_.reset();
  const auto all = known.complete();
  if (due_ && now >= *due_) {
    is_due_ = true;
    due_ = now + *every_;
  }
  if (before_end_ && now >= *before_end_) {
    is_due_ = true;
    before_end_.reset();
  }
  if (running_ || !(ending_ || is_due_) || all.empty() || all.front().step <= published.step) return;
  running_ = all.front();
  number_ = next_number_;
  asked_.clear();
  written_.clear();
  is_due_ = false;
  assign(known);
}

// Finds an agent for each rank that is not written yet. False if none has its part any more.
bool Flush::assign(const Register& known) {
  const auto ranks = known.holders(*running_);
  for (int rank = 0; rank < running_->world; ++rank) {
    const auto found = ranks.find(rank);
    const auto asked = asked_.find(rank);
    const bool is_held = found != ranks.end();
    if (asked != asked_.end() && is_held && found->second.contains(asked->second)) continue;
    if (asked != asked_.end()) asked_.erase(asked);
    if (written_.contains(rank)) continue;
    if (!is_held) return false;
    const auto owner = std::ranges::find_if(found->second, [](const auto& holder) { return holder.second; });
    asked_[rank] = (owner != found->second.end() ? owner : found->second.begin())->first;
  }
  return true;
}

std::vector<int> Flush::ranks_of(AgentIndex agent) const {
  std::vector<int> ranks;
  for (const auto& [rank, asked] : asked_) {
    if (running_ && asked == agent) ranks.push_back(rank);
  }
  return ranks;
}

std::set<AgentIndex> Flush::awaited() const {
  std::set<AgentIndex> agents;
  for (const auto& [rank, asked] : asked_) {
    if (running_ && !written_.contains(rank)) agents.insert(asked);
  }
  return agents;
}

std::optional<TimePoint> Flush::due() const {
  if (!wanted_ || ending_) return std::nullopt;
  return due_ && before_end_ ? std::min(due_, before_end_) : due_ ? due_ : before_end_;
}

}  // namespace ddprun::checkpoint
