#include "checkpoint/register.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ddprun::checkpoint {

std::int64_t begun_from(const std::optional<Restore>& restore) {
  return restore && !restore->only_flush ? restore->step : -1;
}

void begin_attempt(Held& held, int attempt, std::int64_t from) {
  if (held.attempt >= 0 && attempt == held.attempt + 1)
    held.before.insert(held.before.begin(), held.begun_from);
  else
    held.before.clear();
  if (held.before.size() > k_most_before) held.before.pop_back();
  held.attempt = attempt;
  held.begun_from = from;
  if (!held.flushed || *held.flushed <= from) return;
  held.flushed.reset();
  held.flushed_ranks.clear();
}

void Register::note(AgentIndex agent, const std::string& host, const Held& held) {
  if (held.published && held.published_world > 0)
    published_ = std::max(published_.value_or(Saved{-1, 0}), Saved{*held.published, held.published_world});
  Entry& entry = agents_[agent];
  if (held.attempt < entry.begun) return;  // sent before it had Start
  remove(agent);
  entry.host = host;
  entry.held = held;
  if (!note_begun(held)) return add(agent, entry);
  add_all();
}

// Notes which attempts the agent knows. Reports whether one of them is news.
bool Register::note_begun(const Held& held) {
  if (held.attempt < 0) return false;
  if (begun_.empty() || held.attempt > begun_.rbegin()->first) known_since_ = held.attempt;
  bool is_new = begun_.try_emplace(held.attempt, held.begun_from).second;
  for (int earlier = held.attempt - 1; const std::int64_t from : held.before)
    is_new |= begun_.try_emplace(earlier--, from).second;
  return is_new;
}

void Register::forget(AgentIndex agent) {
  remove(agent);
  agents_.erase(agent);
}

void Register::move(AgentIndex from, AgentIndex to) {
  auto entry = agents_.extract(from);
  if (entry.empty()) return;
  entry.key() = to;
  agents_.insert(std::move(entry));
  add_all();
}

void Register::begin_attempt(int attempt, std::int64_t from, const std::vector<AgentIndex>& agents) {
  begun_[attempt] = from;
  for (const AgentIndex agent : agents) {
    if (is_stale(agent, from)) agents_[agent].held.parts.clear();
    agents_[agent].begun = attempt;
  }
  newest_kept_ = from;
  add_all();
}

// Returns the newest step that counts of an agent on which this attempt was begun last.
std::int64_t Register::limit_of(int attempt) const {
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  int unknown = std::max(known_since_ - attempt - 1, 0);
  for (auto each = begun_.upper_bound(attempt); each != begun_.end(); ++each) {
    if (each->first < known_since_) --unknown;
    limit = std::min(limit, each->second);
  }
  return unknown > 0 ? -1 : limit;
}

void Register::add(AgentIndex agent, const Entry& entry) {
  const std::int64_t limit = limit_of(entry.held.attempt);
  for (const Part& part : entry.held.parts) {
    if (part.step > limit || part.rank >= part.world || !counts(part.step)) continue;
    bool& own = saved_[{part.step, part.world}][part.rank][agent];
    own = own || !part.replica;
  }
}

void Register::remove(AgentIndex agent) {
  for (auto& [saved, ranks] : saved_) {
    for (auto& [rank, holders] : ranks) holders.erase(agent);
    std::erase_if(ranks, [](const auto& each) { return each.second.empty(); });
  }
  std::erase_if(saved_, [](const auto& each) { return each.second.empty(); });
}

void Register::add_all() {
  saved_.clear();
  for (const auto& [agent, entry] : agents_) add(agent, entry);
}

std::vector<Saved> Register::complete() const {
  std::vector<Saved> all;
  for (const auto& [saved, ranks] : saved_) {
    if (ranks.size() == static_cast<std::size_t>(saved.world)) all.insert(all.begin(), saved);
  }
  return all;
}

bool Register::is_safe(const std::map<int, Holders>& ranks) const {
  return std::ranges::all_of(ranks, [this](const auto& each) {
    const std::string& first = agents_.at(each.second.begin()->first).host;
    return std::ranges::any_of(each.second,
                               [&](const auto& holder) { return agents_.at(holder.first).host != first; });
  });
}

std::optional<Saved> Register::newest_safe() const {
  for (const Saved& saved : complete()) {
    if (is_safe(saved_.at(saved))) return saved;
  }
  return std::nullopt;
}

std::optional<Saved> Register::newest() const {
  const std::vector<Saved> all = complete();
  if (all.empty() || (published_ && published_->step > all.front().step)) return published_;
  return all.front();
}

std::vector<std::int64_t> Register::kept(std::optional<std::int64_t> flushed) const {
  std::vector<std::int64_t> steps;
  for (const Saved& saved : complete()) {
    if (steps.size() < 2 && (steps.empty() || saved.step < steps.back())) steps.push_back(saved.step);
  }
  const auto safe = newest_safe();
  if (safe && safe->step < steps.back()) steps.back() = safe->step;
  if (flushed && !steps.empty()) steps.push_back(*flushed);
  std::ranges::sort(steps, std::greater());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

void Register::note_kept(const std::vector<std::int64_t>& steps) {
  if (steps.empty() || steps == kept_) return;
  kept_ = steps;
  newest_kept_ = std::max(newest_kept_, steps.front());
  add_all();
}

bool Register::counts(std::int64_t step) const {
  return step >= newest_kept_ || std::ranges::find(kept_, step) != kept_.end();
}

bool Register::is_stale(AgentIndex agent, std::int64_t step) const {
  const auto found = agents_.find(agent);
  if (found == agents_.end()) return false;
  const std::int64_t limit = limit_of(found->second.held.attempt);
  return std::ranges::any_of(found->second.held.parts,
                             [&](const Part& part) { return part.step > limit && part.step <= step; });
}

std::map<int, Register::Holders> Register::holders(const Saved& saved) const {
  const auto found = saved_.find(saved);
  return found == saved_.end() ? std::map<int, Holders>{} : found->second;
}

std::vector<int> Register::missing(const Saved& saved) const {
  const auto ranks = holders(saved);
  std::vector<int> all;
  for (int rank = 0; rank < saved.world; ++rank) {
    if (!ranks.contains(rank)) all.push_back(rank);
  }
  return all;
}

std::set<int> Register::flushed(std::int64_t step, int number) const {
  std::set<int> all;
  for (const auto& [agent, entry] : agents_) {
    const Held& held = entry.held;
    if (held.flushed == step && held.flushed_number == number && step <= limit_of(held.attempt))
      all.insert(held.flushed_ranks.begin(), held.flushed_ranks.end());
  }
  return all;
}

namespace {

const std::string& unit_of(const Place& place) { return place.unit.empty() ? place.host : place.unit; }

// Puts places of one group behind the first of it, and returns the size of the largest group.
std::size_t gather(std::vector<Place>& places, const std::string& (*group_of)(const Place&)) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> groups;  // first place, and size
  std::size_t largest = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto& [first, size] = groups.try_emplace(group_of(places[i]), i, 0).first->second;
    largest = std::max(largest, ++size);
  }
  std::ranges::stable_sort(places, {}, [&](const Place& place) { return groups.at(group_of(place)).first; });
  return largest;
}

}  // namespace

// Turns the row of agents by the size of its largest group: none meets its own group if that is at most half.
std::map<AgentIndex, AgentIndex> choose_neighbours(const std::vector<Place>& places) {
  std::vector<Place> row = places;
  std::size_t turn = gather(row, [](const Place& place) -> const std::string& { return place.host; });
  const std::size_t unit = gather(row, unit_of);
  if (2 * unit <= row.size()) turn = unit;
  std::map<AgentIndex, AgentIndex> neighbours;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Place& next = row[(i + turn) % row.size()];
    if (next.host != row[i].host) neighbours[row[i].agent] = next.agent;
  }
  return neighbours;
}

std::vector<std::int64_t> needless_steps(const StepSizes& steps, const std::vector<std::int64_t>& complete) {
  std::vector<std::int64_t> needless;
  for (const auto& [step, size] : steps) {
    if (!complete.empty() && step < complete.back()) needless.push_back(step);
  }
  return needless;
}

std::vector<std::int64_t> steps_to_remove(const StepSizes& steps, const std::vector<std::int64_t>& complete,
                                          std::uint64_t bytes) {
  std::vector<std::int64_t> removed;
  std::uint64_t freed = 0;
  for (const bool kept : {false, true}) {
    for (const auto& [step, size] : steps) {
      if (complete.empty() || step >= complete.front() || freed >= bytes) break;
      if (kept != (std::ranges::find(complete, step) != complete.end())) continue;
      removed.push_back(step);
      freed += size;
    }
  }
  return freed < bytes ? std::vector<std::int64_t>() : removed;
}

std::vector<Offer> parts_to_copy(const std::vector<Offer>& offers, const std::vector<Part>& here,
                                 const std::vector<std::int64_t>& complete) {
  std::vector<Offer> wanted;
  for (const Offer& offer : offers) {
    const bool needless = !complete.empty() && offer.step < complete.back();
    const bool known = std::ranges::any_of(here, [&](const Part& part) {
      return part.replica && part.step == offer.step && part.rank == offer.rank;
    });
    if (needless || known) continue;
    if (!wanted.empty() && wanted.front().step < offer.step) wanted.clear();
    if (wanted.empty() || wanted.front().step == offer.step) wanted.push_back(offer);
  }
  return wanted;
}

}  // namespace ddprun::checkpoint
