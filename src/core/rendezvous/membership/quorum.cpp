#include "rendezvous/membership/quorum.hpp"

#include <algorithm>

namespace ddprun::rendezvous {

std::vector<PlaceRange> to_ranges(const std::vector<AgentIndex>& places) {
  std::vector<PlaceRange> ranges;
  for (const AgentIndex place : places) {
    if (!ranges.empty() && ranges.back().last + 1 == place.value) {
      ranges.back().last = place.value;
    } else {
      ranges.push_back({place.value, place.value});
    }
  }
  return ranges;
}

std::vector<AgentIndex> from_ranges(const std::vector<PlaceRange>& ranges) {
  std::vector<AgentIndex> places;
  for (const PlaceRange& range : ranges) {
    for (int place = range.first; place <= range.last; ++place) places.push_back({place});
  }
  return places;
}

// ---- by the coordinator of the agents

void Quorum::begin(const std::vector<AgentIndex>& agents) {
  std::vector<PlaceRange> ranges = to_ranges(agents);
  if (!rolls_.empty() && rolls_.back().unchanged && rolls_.back().agents == ranges) return;
  Kept& roll = rolls_.emplace_back();
  roll.number = rolls_.size() == 1 ? 1 : rolls_[rolls_.size() - 2].number + 1;
  roll.agents = std::move(ranges);
  roll.here = {agents.begin(), agents.end()};
  survivors_.clear();
}

bool Quorum::note_told(AgentIndex agent, int number) {
  std::size_t settled = 0;
  for (std::size_t i = 0; i + 1 < rolls_.size() && rolls_[i].number < number; ++i) {
    Kept& roll = rolls_[i];
    if (roll.here.contains(agent)) roll.told.insert(agent);
    if (is_settled(roll)) settled = i + 1;
  }
  rolls_.erase(rolls_.begin(), rolls_.begin() + static_cast<std::ptrdiff_t>(settled));
  return settled > 0;
}

void Quorum::note_left(AgentIndex agent, bool ended) {
  for (Kept& roll : rolls_) {
    if (roll.here.erase(agent) == 0) continue;
    roll.unchanged = false;
    if (ended)
      roll.told.erase(agent);
    else
      roll.away.insert(agent);
  }
  std::erase_if(survivors_, [&](const Survivor& each) { return each.roster.own == agent; });
}

void Quorum::note_ended(AgentIndex agent, int number) {
  for (Kept& roll : rolls_) {
    if (roll.number <= number) roll.away.erase(agent);
  }
}

// ---- by the next coordinator

void Quorum::note_survivor(const Survivor& survivor) {
  for (const int place : survivor.ended) ended_.insert({place});
  for (const Roll& roll : survivor.roster.rolls) add(roll);
  if (!survivor.roster.rolls.empty()) drop_before(survivor.roster.rolls.front().number);
  survivors_.push_back(survivor);
  for (const Survivor& each : survivors_) note_joined(each);
  for (Kept& roll : rolls_)
    std::erase_if(roll.away, [&](AgentIndex agent) { return ended_.contains(agent); });
  for (const Survivor& each : survivors_) note_known(each);
  const auto settled = std::ranges::find_if(rolls_.rbegin(), rolls_.rend(), is_settled);
  if (settled != rolls_.rend()) drop_before(settled->number + 1);
}

// Notes that the agent knows its latest roll, and so does the coordinator that has begun that, wherever it
// is.
void Quorum::note_known(const Survivor& survivor) {
  for (Kept& roll : rolls_) {
    if (roll.number >= survivor.roster.number()) continue;
    for (const AgentIndex knows : {survivor.roster.own, survivor.roster.coordinator}) {
      if (roll.here.contains(knows) || roll.away.contains(knows)) roll.told.insert(knows);
    }
  }
}

// Adds a roll. Two coordinators may have begun rolls of one number, of which each knew nothing of the other.
void Quorum::add(const Roll& roll) {
  const auto is_it = [&](const Kept& kept) {
    return kept.number == roll.number && kept.agents == roll.agents;
  };
  if (std::ranges::any_of(rolls_, is_it)) return;
  if (roll.number < settled_) return;
  const auto next = std::ranges::find_if(rolls_, [&](const Kept& kept) { return kept.number > roll.number; });
  Kept& kept = *rolls_.insert(next, {roll.number, roll.agents, {}, {}, {}, false});
  const std::vector<AgentIndex> agents = from_ranges(roll.agents);
  kept.away = {agents.begin(), agents.end()};
}

// Forgets the rolls before that number, which were settled when it was sent.
void Quorum::drop_before(int number) {
  settled_ = std::max(settled_, number);
  std::erase_if(rolls_, [&](const Kept& roll) { return roll.number < number; });
}

// Notes that the agent is here. In a roll that it was not told of, it is the one that had been here when that
// was begun.
void Quorum::note_joined(const Survivor& survivor) {
  for (Kept& roll : rolls_) {
    const bool knows = roll.number <= survivor.roster.number();
    if (knows && !survivor.roster.counts) continue;
    if (roll.away.erase(survivor.roster.own) > 0) roll.here.insert(survivor.roster.own);
  }
}

// ----

bool Quorum::has_majority(const Kept& roll) {
  const std::size_t here = 2 * roll.here.size(), all = roll.here.size() + roll.away.size();
  if (here != all) return here > all;
  return !roll.here.empty() && *roll.here.begin() < *roll.away.begin();
}

bool Quorum::is_settled(const Kept& roll) {
  return 2 * roll.told.size() > roll.here.size() + roll.away.size();
}

bool Quorum::is_majority() const { return std::ranges::all_of(rolls_, has_majority); }

bool Quorum::is_counted(AgentIndex agent) const {
  return !rolls_.empty() && rolls_.back().here.contains(agent);
}

bool Quorum::is_complete_without(AgentIndex agent) const {
  return std::ranges::all_of(rolls_, [&](const Kept& roll) {
    return std::ranges::all_of(roll.away, [&](AgentIndex each) { return each == agent; });
  });
}

Quorum::Count Quorum::count() const {
  if (rolls_.empty()) return {};
  const Kept& roll = rolls_.back();
  return {static_cast<int>(roll.here.size()), static_cast<int>(roll.here.size() + roll.away.size())};
}

std::vector<Roll> Quorum::rolls() const {
  std::vector<Roll> all;
  for (const Kept& roll : rolls_) all.push_back({roll.number, roll.agents});
  return all;
}

}  // namespace ddprun::rendezvous
