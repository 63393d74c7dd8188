#include "ddprun/rendezvous/next_coordinator.hpp"

#include <algorithm>

#include "ddprun/rendezvous/host_limits.hpp"

namespace ddprun::rendezvous {

NextCoordinator::NextCoordinator(Milliseconds host_timeout)
    : patience_(longest_search(host_timeout)), turn_(successor_turn(host_timeout)) {}

void NextCoordinator::note_joined(const std::string& address, int port) {
  coordinator_.reset();
  if (!roster_) return;
  const auto is_it = [&](const Successor& each) {
    return each.port == port && std::ranges::find(each.addresses, address) != each.addresses.end();
  };
  const auto found = std::ranges::find_if(roster_->successors, is_it);
  if (found != roster_->successors.end()) coordinator_ = found->place;
}

bool NextCoordinator::note(const Roster& roster) {
  const bool is_new =
      !roster_ || roster_->number() != roster.number() || roster_->coordinator != roster.coordinator;
  roster_ = roster;
  coordinator_ = roster.coordinator;
  lost_.clear();
  ended_.clear();
  first_loss_.reset();
  last_loss_.reset();
  return is_new;
}

void NextCoordinator::note_lost(bool ended, TimePoint now) {
  if (coordinator_) {
    lost_.insert(*coordinator_);
    if (ended) ended_.insert(*coordinator_);
  }
  coordinator_.reset();
  if (!first_loss_) first_loss_ = now;
  last_loss_ = now;
  last_ended_ = ended;
}

std::vector<Successor> NextCoordinator::candidates() const {
  std::vector<Successor> all;
  if (!roster_) return all;
  for (const Successor& each : roster_->successors) {
    if (each.place != roster_->own && !is_lost(each.place)) all.push_back(each);
  }
  return all;
}

std::optional<TimePoint> NextCoordinator::takes_over_at() const {
  if (!roster_ || !last_loss_) return std::nullopt;
  // All see at the same moment that a process has ended; after silence another one may have been earlier.
  TimePoint turn = *last_loss_ + (last_ended_ ? Milliseconds{0} : k_finding);
  for (const Successor& each : roster_->successors) {
    if (is_lost(each.place)) continue;
    if (each.place == roster_->own) return turn;
    turn += turn_;
  }
  return std::nullopt;
}

std::optional<TimePoint> NextCoordinator::gives_up_at() const {
  if (!first_loss_) return std::nullopt;
  return *first_loss_ + patience_;
}

Survivor NextCoordinator::survivor() const {
  Survivor survivor{*roster_, {}};
  for (const AgentIndex place : ended_) survivor.ended.push_back(place.value);
  return survivor;
}

}  // namespace ddprun::rendezvous
