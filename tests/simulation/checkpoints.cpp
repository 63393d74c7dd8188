#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "agent_sides.hpp"
#include "world.hpp"

namespace ddprun::simulation {

using namespace rendezvous;

namespace {

constexpr Microseconds k_second{1000000};
constexpr int k_step = 10;

template <class Kept>
void keep(Copies& copies, const Kept& is_kept) {
  std::erase_if(copies, [&](const auto& each) { return !is_kept(each.first.first); });
}

int place_of(const std::string& host) { return std::stoi(host.substr(1)) - 1; }

}  // namespace

// ---- of one process

void CheckpointStore::begin(int number, Attempt attempt, const std::optional<checkpoint::Restore>& restore) {
  const std::int64_t from = restore ? restore->step : -1;
  const bool all_go = restore && !restore->own;
  for (Copies* const copies : {&own, &replicas})
    keep(*copies, [&](auto step) { return !all_go && step <= from; });
  origin = number;
  checkpoint::begin_attempt(held_, attempt.value, checkpoint::begun_from(restore));
}

void CheckpointStore::take(const checkpoint::Order& latest) {
  order = latest;
  if (order.complete.empty()) return;
  const auto stays = [&](std::int64_t step) {
    return step >= order.complete.front() || std::ranges::find(order.complete, step) != order.complete.end();
  };
  for (Copies* const copies : {&own, &replicas, &told}) keep(*copies, stays);
}

void CheckpointStore::see(std::int64_t published, int world) {
  if (held_.published && *held_.published >= published) return;
  held_.published = published;
  held_.published_world = world;
}

void CheckpointStore::note_flushed(std::int64_t step, int rank) {
  if (held_.flushed != step || held_.flushed_number != order.flush_number) held_.flushed_ranks.clear();
  held_.flushed = step;
  held_.flushed_number = order.flush_number;
  if (std::ranges::find(held_.flushed_ranks, rank) == held_.flushed_ranks.end())
    held_.flushed_ranks.push_back(rank);
}

checkpoint::Held CheckpointStore::held() const {
  checkpoint::Held held = held_;
  const auto add = [&](const Copies& copies, bool replica) {
    for (const auto& [part, copy] : copies)
      held.parts.push_back({part.first, part.second, copy.world, 1000, replica});
  };
  add(own, false);
  add(replicas, true);
  return held;
}

bool CheckpointStore::held_part(std::int64_t step, int rank, int world) const {
  return std::ranges::any_of(std::vector{&own, &replicas}, [&](const Copies* copies) {
    const auto found = copies->find({step, rank});
    return found != copies->end() && found->second.world == world;
  });
}

// ---- of all

int Histories::begin(int coordinator, Attempt attempt) {
  all_.emplace_back();
  return numbers_[{coordinator, attempt.value}] = static_cast<int>(all_.size()) - 1;
}

int Histories::find(int coordinator, Attempt attempt) const {
  const auto found = numbers_.find({coordinator, attempt.value});
  return found == numbers_.end() ? -1 : found->second;
}

void Histories::goes_on_from(int origin, int other, std::int64_t step) {
  all_[static_cast<std::size_t>(origin)] = {other, step};
}

bool Histories::has(int origin, std::int64_t step, const Copy& copy) const {
  while (origin >= 0 && origin != copy.origin) {
    const From& from = all_[static_cast<std::size_t>(origin)];
    if (step > from.step) return false;
    origin = from.other;
  }
  return origin >= 0;
}

// ---- of an agent

void Agent::tell_checkpoints() {
  post([this] {
    if (life_.linked() && world_.launch().saves) send(CheckpointsHeld{store_.held()});
  });
}

checkpoint::Held Agent::tell_all_checkpoints() {
  if (!world_.launch().saves) return {};
  store_.told_to = led_by_;
  store_.told = store_.replicas;
  for (const auto& [part, copy] : store_.own) store_.told[part] = copy;
  return store_.held();
}

void Agent::begin_checkpoints(const Start& start) {
  if (!world_.launch().saves) return;
  store_.begin(world_.histories().find(led_by_, attempt_), attempt_, start.restore);
  world_.check_begun(*this, start);
  tell_checkpoints();
  const std::int64_t first = start.restore ? start.restore->step : 0;
  for (const plan::RankAssignment& assigned : ranks_) {
    for (int turn = 1; turn <= 8; ++turn) {
      const auto after = turn * 2 * k_second + between(world_.random(), Microseconds{0}, k_second);
      save_after(after, first + turn * k_step, assigned.rank.value, start.assignment.world_size);
    }
  }
}

void Agent::save_after(Microseconds after, std::int64_t step, int rank, int world_size) {
  const Copy part{world_size, store_.origin};
  world_.clock().after(after, [this, step, rank, part] {
    const bool runs = alive_ && !frozen_ && store_.origin == part.origin && world_.runs_rank(number_, rank);
    if (!runs) return;
    store_.own[{step, rank}] = part;
    tell_checkpoints();
    world_.copy_to_neighbours(*this, step, rank, part);
  });
}

// A copy is made of what the neighbour has in the same attempt.
void Agent::copy_from(Agent& other, std::int64_t step, int rank, const Copy& part) {
  const auto found = other.store_.own.find({step, rank});
  const bool is_there = other.alive_ && found != other.store_.own.end() && found->second == part;
  const auto& from = store_.order.copy_from;
  const bool is_asked = from && place_of(from->host) == other.place_ && store_.origin == other.store_.origin;
  if (!alive_ || frozen_ || !is_there || !is_asked) return;
  store_.replicas[{step, rank}] = part;
  tell_checkpoints();
}

void Agent::handle(const CheckpointOrder& told) {
  const checkpoint::Order before = std::exchange(store_.order, told.order);
  store_.take(told.order);
  tell_checkpoints();
  for (const int rank : told.order.flush_ranks) {
    const auto after = between(world_.random(), Microseconds{1000}, 2 * k_second);
    world_.clock().after(after, [this, step = *told.order.flush, rank] { write_part(step, rank); });
  }
  if (told.order.copy_from != before.copy_from) world_.copy_all(*this);
  if (told.order.publish && told.order.publish != before.publish)
    world_.clock().after(Microseconds{20000}, [this, step = *told.order.publish] {
      if (alive_ && !frozen_ && store_.order.publish == step) world_.publish(step, *this);
    });
}

void Agent::write_part(std::int64_t step, int rank) {
  if (!alive_ || frozen_ || store_.order.flush != step) return;
  for (const Copies* const copies : {&store_.own, &store_.replicas}) {
    const auto found = copies->find({step, rank});
    if (found == copies->end()) continue;
    world_.flush_folder().partial[{step, store_.order.flush_number}][rank] = found->second;
    store_.note_flushed(step, rank);
    return tell_checkpoints();
  }
}

// ---- of the world

bool World::runs_rank(int agent, int rank) const {
  return std::ranges::any_of(workers_, [&](const auto& worker) {
    return worker->agent == agent && worker->rank == rank && worker->runs;
  });
}

void World::copy_to_neighbours(Agent& agent, std::int64_t step, int rank, const Copy& part) {
  for (const auto& each : agents_) {
    if (!each->alive() || each.get() == &agent) continue;
    clock_.after(between(random_, k_second / 10, 3 * k_second),
                 [this, other = each.get(), &agent, step, rank, part] {
                   if (network_.reaches(agent.place(), other->place()))
                     other->copy_from(agent, step, rank, part);
                 });
  }
}

void World::copy_all(Agent& agent) {
  for (const auto& each : agents_) {
    if (!each->alive() || each.get() == &agent) continue;
    for (const auto& [part, copy] : each->store().own)
      clock_.after(between(random_, k_second / 10, 3 * k_second),
                   [other = each.get(), &agent, part = part, copy = copy] {
                     agent.copy_from(*other, part.first, part.second, copy);
                   });
  }
}

// One step is published once all of its parts are there, and these are of one attempt.
void World::publish(std::int64_t step, const Agent& agent) {
  const auto& parts = folder_.partial[{step, agent.store().order.flush_number}];
  require(!parts.empty(), "nothing is there to publish");
  const Copy first = parts.begin()->second;
  require(static_cast<int>(parts.size()) >= first.world, fmt::format("step {} is published in part", step));
  for (const auto& [rank, copy] : parts)
    require(copy == first,
            fmt::format("step {} is published from attempts {} and {}", step, first.origin, copy.origin));
  tell(agent.name(), fmt::format("publishes step {}", step));
  ++summary_.published;
  folder_.published[step] = first;
  for (const auto& each : agents_) {
    clock_.after(between(random_, Microseconds{1000}, k_second), [each = each.get(), step, first] {
      each->store().see(step, first.world);
      if (each->alive()) each->tell_checkpoints();
    });
  }
}

// What all are told to start from is one step of one attempt, which is complete; and of what they have told
// with the answer to the stop, or as they joined, none that is newer is.
void World::check_restores(const Agent& agent, const std::vector<std::pair<int, Start>>& starts) {
  if (!launch_.saves) return;
  const int origin = histories_.begin(agent.number(), starts.front().second.assignment.attempt);
  const auto& restore = starts.front().second.restore;
  std::map<int, Copy> parts;  // by rank
  std::set<int> listed;
  const auto note = [&](int place, int rank) {
    listed.insert(rank);
    Agent* const holder = running_at(place);
    if (holder == nullptr) return;
    for (const Copies* const copies : {&holder->store().own, &holder->store().replicas}) {
      const auto found = copies->find({restore->step, rank});
      if (found == copies->end() || found->second.world != restore->world) continue;
      const auto [entry, is_new] = parts.emplace(rank, found->second);
      require(entry->second == found->second,
              fmt::format("step {} of rank {} is of attempts {} and {}", restore->step, rank,
                          entry->second.origin, found->second.origin));
    }
  };
  for (const auto& [place, start] : starts) {
    require(start.restore.has_value() == restore.has_value(), "some start anew");
    if (!restore) continue;
    require(start.restore->step == restore->step && start.restore->world == restore->world,
            "steps are mixed");
    for (const checkpoint::Holder& holder : start.restore->holders) {
      for (const int rank : holder.ranks) note(place_of(holder.server.host), rank);
    }
    for (int rank = 0; start.restore->own && rank < restore->world; ++rank) {
      Agent* const own = running_at(place);
      const bool has = own != nullptr && own->store().held_part(restore->step, rank, restore->world);
      if (has) note(place, rank);
    }
  }
  const bool by_flush = restore && restore->from_flush;
  if (by_flush) {
    const auto found = folder_.published.find(restore->step);
    require(found != folder_.published.end(), "a step is not published");
    listed.clear();
    parts.emplace(-1, found->second);
  }
  if (restore) {
    ++summary_.restored;
    require(by_flush || static_cast<int>(listed.size()) == restore->world,
            fmt::format("step {} has {} of {} ranks", restore->step, listed.size(), restore->world));
    for (const auto& [rank, copy] : parts)
      require(copy == parts.begin()->second, fmt::format("step {} is of attempts {} and {}", restore->step,
                                                         copy.origin, parts.begin()->second.origin));
    if (!parts.empty()) histories_.goes_on_from(origin, parts.begin()->second.origin, restore->step);
  }
  check_newest(agent.number(), starts, restore ? restore->step : -1);
}

void World::check_newest(int coordinator, const std::vector<std::pair<int, Start>>& starts,
                         std::int64_t step) {
  int latest = -1;
  std::map<std::pair<std::int64_t, int>, Copy> all;
  for (const auto& [place, start] : starts) {
    const Agent* const agent = running_at(place);
    if (agent != nullptr) latest = std::max(latest, agent->store().origin);
  }
  std::map<std::pair<std::int64_t, int>, std::set<int>> ranks;  // by step and world
  for (const auto& [place, start] : starts) {
    const Agent* const agent = running_at(place);
    if (agent == nullptr || agent->store().told_to != coordinator) continue;
    for (const auto& [part, copy] : agent->store().told) {
      if (histories_.has(latest, part.first, copy)) ranks[{part.first, copy.world}].insert(part.second);
    }
  }
  for (const auto& [saved, held] : ranks) {
    if (static_cast<int>(held.size()) < saved.second) continue;
    require(saved.first <= step,
            fmt::format("all start from step {}, and step {} is complete", step, saved.first));
  }
}

// What an agent keeps of the past is what its attempt has gone on from.
void World::check_begun(const Agent& agent, const Start& start) const {
  const CheckpointStore& store = agent.store();
  if (!start.restore) return require(store.own.empty() && store.replicas.empty(), "something is left");
  for (const Copies* const copies : {&store.own, &store.replicas}) {
    for (const auto& [part, copy] : *copies) {
      if (part.first == start.restore->step)
        require(
            histories_.has(store.origin, part.first, copy),
            fmt::format("{} starts from step {} and has that of another attempt", agent.name(), part.first));
    }
  }
}

}  // namespace ddprun::simulation
