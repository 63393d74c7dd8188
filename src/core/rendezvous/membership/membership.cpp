#include "rendezvous/membership/membership.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/text.hpp"
#include "plan/network_order.hpp"

namespace ddprun::rendezvous {

Membership::Membership(int places, int spares, AgentIndex own, ChoiceRules rules)
    : own_(own),
      rules_(rules),
      left_out_(static_cast<std::size_t>(places)),
      members_(static_cast<std::size_t>(places)),
      slots_(static_cast<std::size_t>(places - spares)) {}

int Membership::nodes_here(const std::set<AgentIndex>& without) const {
  std::set<std::string> hosts;
  int agents = 0;
  bool one_a_task = true;
  for (const auto& [connection, agent] : here_) {
    if (without.contains(agent)) continue;
    const plan::Announcement& announced = *at(agent).announcement;
    one_a_task &= announced.fixed_rank.has_value();
    hosts.insert(to_lower(short_host_name(announced.host)));
    ++agents;
  }
  return one_a_task ? static_cast<int>(hosts.size()) : agents;
}

std::vector<AgentIndex> Membership::places_of(std::string_view host) const {
  std::vector<AgentIndex> named, alike;
  for (int place = 0; place < places(); ++place) {
    const auto& announced = at({place}).announcement;
    if (!announced || !same_host(announced->host, host)) continue;
    alike.push_back({place});
    if (to_lower(announced->host) == to_lower(host)) named.push_back({place});
  }
  return named.empty() ? alike : named;
}

std::vector<int> Membership::missing() const {
  std::vector<int> absent;
  for (int place = 0; place < places(); ++place) {
    if (!is_here({place})) absent.push_back(place);
  }
  return absent;
}

std::vector<std::string> Membership::lost_hosts() const {
  std::vector<std::string> hosts;
  for (const Member& each : members_) {
    if (!each.connection && each.announcement) hosts.push_back(printable(each.announcement->host));
  }
  return hosts;
}

// ---- arrivals and losses

std::optional<AgentIndex> Membership::free_place() const {
  const auto free =
      std::find_if(members_.begin(), members_.end(), [](const Member& each) { return !each.connection; });
  if (free == members_.end()) return std::nullopt;
  return AgentIndex{static_cast<int>(free - members_.begin())};
}

std::optional<Membership::Place> Membership::find_place(const plan::Announcement& announcement) const {
  const auto free = free_place();
  if (!announcement.agent) return free ? std::optional(Place{*free, {}}) : std::nullopt;
  if (!is_here(*announcement.agent)) return Place{*announcement.agent, {}};
  if (!at(*announcement.agent).by_arrival || !free) return std::nullopt;
  return Place{*announcement.agent, free};
}

void Membership::move(AgentIndex from, AgentIndex to) {
  const Member moved = std::exchange(member(from), {});
  plan::Announcement announcement = *moved.announcement;
  if (moved.by_arrival) announcement.agent.reset();
  enter(to, *moved.connection, std::move(announcement));
}

std::optional<AgentIndex> Membership::find_late_place(const plan::Announcement& announcement) const {
  if (announcement.agent) return is_here(*announcement.agent) ? std::nullopt : announcement.agent;
  for (int place = 0; place < places(); ++place) {
    const Member& each = at({place});
    if (!each.connection && each.announcement && same_host(each.announcement->host, announcement.host))
      return AgentIndex{place};
  }
  return free_place();
}

std::optional<Error> Membership::find_clash(AgentIndex place, const plan::Announcement& announcement) const {
  std::vector<plan::Announcement> all;
  for (int other = 0; other < places(); ++other) {
    if (AgentIndex{other} == place) {
      all.push_back(announcement);
      all.back().agent = place;
      if (!announcement.agent) all.back().node = NodeIndex{other};
    } else if (is_here({other})) {
      all.push_back(*at({other}).announcement);
    }
  }
  try {
    plan::make_world_plan(all, plan::Gaps::closed);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void Membership::enter(AgentIndex place, ConnectionId connection, plan::Announcement announcement) {
  Member& entering = member(place);
  entering = {};
  entering.by_arrival = !announcement.agent;
  if (entering.by_arrival) {
    announcement.agent = place;
    announcement.node = NodeIndex{place.value};
  }
  entering.announcement = std::move(announcement);
  entering.connection = connection;
  here_[connection] = place;
}

void Membership::leave(AgentIndex agent, std::string why) {
  here_.erase(*member(agent).connection);
  member(agent).connection.reset();
  member(agent).lost = std::move(why);
}

// ---- participants

bool Membership::anyone_waits() const {
  return std::any_of(here_.begin(), here_.end(), [this](const auto& entry) {
    return !takes_part(entry.second) && !at(entry.second).set_aside;
  });
}

bool Membership::stays(AgentIndex agent) const {
  return is_here(agent) && takes_part(agent) && !(at(agent).set_aside && anyone_waits()) &&
         !left_out_[static_cast<std::size_t>(agent.value)];
}

// Orders the places: those of the network that are known, then all others. Ranks of a launcher stay.
void Membership::order_places() {
  std::vector<plan::Announcement> known;
  std::vector<AgentIndex> places;
  order_.clear();
  for (int place = 0; place < this->places(); ++place) {
    const auto& announced = at({place}).announcement;
    const bool ranked = rules_.by_network && announced;
    (ranked ? places : order_).push_back({place});
    if (ranked) known.push_back(*announced);
  }
  ordered_ = rules_.by_network && !plan::is_agent_per_task(known);
  if (!ordered_) {
    places.insert(places.end(), order_.begin(), order_.end());
    std::ranges::sort(places);
    order_ = std::move(places);
    return;
  }
  std::vector<std::size_t> by_node(places.size());
  std::iota(by_node.begin(), by_node.end(), std::size_t{0});
  const auto node_of = [&](std::size_t i) { return known[i].node.value_or(NodeIndex{places[i].value}); };
  std::ranges::stable_sort(by_node, {}, node_of);
  std::vector<allocation::NetworkPlace> network;
  for (const std::size_t i : by_node) network.push_back(known[i].network);
  std::vector<AgentIndex> ordered;
  for (const std::size_t i : plan::order_by_network(network)) ordered.push_back(places[by_node[i]]);
  order_.insert(order_.begin(), ordered.begin(), ordered.end());
}

// Chooses who waits so that the units that take part are whole: first of those that have most agents in the
// attempt before, so that few ranks change.
void Membership::choose_whole_units() {
  left_out_.assign(members_.size(), false);
  if (rules_.domain_size == 0 || !ordered_) return;
  std::vector<AgentIndex> all;
  std::ranges::copy_if(order_, std::back_inserter(all), [this](AgentIndex agent) { return is_here(agent); });
  const auto comes_later = [this](AgentIndex agent) {
    return at(agent).set_aside ? 2 : takes_part(agent) ? 0 : 1;
  };
  std::ranges::stable_sort(all, {}, comes_later);
  std::vector<std::pair<std::string, std::vector<AgentIndex>>> units;
  for (const AgentIndex agent : all) {
    const std::string unit = plan::unit_of(at(agent).announcement->network);
    auto found = std::ranges::find(units, unit, [](const auto& each) { return each.first; });
    if (found == units.end()) found = units.insert(units.end(), {unit, {}});
    found->second.push_back(agent);
    left_out_[static_cast<std::size_t>(agent.value)] = true;
  }
  std::ranges::stable_sort(units, std::greater(), [this](const auto& unit) {
    return std::ranges::count_if(unit.second, [this](AgentIndex agent) { return takes_part(agent); });
  });
  const auto size = static_cast<std::size_t>(rules_.domain_size);
  std::size_t taken = 0;
  const auto take = [&](AgentIndex agent) {
    taken += left_out_[static_cast<std::size_t>(agent.value)] ? 1 : 0;
    left_out_[static_cast<std::size_t>(agent.value)] = false;
  };
  for (const auto& [unit, agents] : units) {
    if (unit.empty()) continue;
    const std::size_t whole = std::min(agents.size(), slots_.size() - taken) / size * size;
    std::for_each_n(agents.begin(), whole, take);
  }
  for (const AgentIndex agent : all) {
    if (std::cmp_less(taken, rules_.least)) take(agent);
  }
  std::stable_partition(order_.begin(), order_.end(), [this](AgentIndex agent) {
    return !left_out_[static_cast<std::size_t>(agent.value)];
  });
}

// Fills slots: an agent's own first, for all of them, then the nearest to the one that was there; `placed`
// are those that have one.
void Membership::fill_slots(const std::vector<std::optional<AgentIndex>>& before, std::vector<bool>& placed,
                            bool aside) {
  const auto is_free = [&](AgentIndex place) {
    const auto index = static_cast<std::size_t>(place.value);
    return is_here(place) && !placed[index] && !left_out_[index] && at(place).set_aside == aside;
  };
  const auto take = [&](std::size_t slot, AgentIndex place) {
    slots_[slot] = place;
    placed[static_cast<std::size_t>(place.value)] = true;
  };
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i] && is_free(order_[i])) take(i, order_[i]);
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i]) continue;
    const bool known = ordered_ && before[i] && at(*before[i]).announcement;
    std::optional<AgentIndex> nearest;
    int nearness = -1;
    for (const AgentIndex place : order_) {
      if (!is_free(place) || (nearest && !known)) continue;
      const int shared =
          !known ? 0 : plan::closeness(at(*before[i]).announcement->network, at(place).announcement->network);
      if (shared <= nearness) continue;
      nearest = place;
      nearness = shared;
    }
    if (!nearest) return;  // nor is one for any later slot
    take(i, *nearest);
  }
}

// Gives agents that were set aside, and are needed after all, their own slots: no rank moves for nothing.
void Membership::give_back_slots(const std::vector<std::optional<AgentIndex>>& before) {
  for (std::size_t own = 0; own < slots_.size(); ++own) {
    if (!before[own] || slots_[own] == before[own]) continue;
    const auto other = std::ranges::find(slots_, before[own]);
    if (other != slots_.end()) std::swap(slots_[own], *other);
  }
}

std::vector<Succession> Membership::choose() {
  const std::vector<std::optional<AgentIndex>> before = slots_;
  order_places();
  choose_whole_units();
  if (ordered_ && !has_spares()) slots_.assign(slots_.size(), std::nullopt);
  std::vector<bool> placed(members_.size());
  for (std::optional<AgentIndex>& slot : slots_) {
    if (slot && !stays(*slot)) slot.reset();
    if (slot) placed[static_cast<std::size_t>(slot->value)] = true;
  }
  fill_slots(before, placed, /*aside=*/false);
  fill_slots(before, placed, /*aside=*/true);
  if (has_spares()) give_back_slots(before);
  for (Member& each : members_) {
    each.position.reset();
    each.slot.reset();
  }
  participants_.clear();
  std::vector<Succession> successions;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i]) continue;
    member(*slots_[i]).position = participants_.size();
    member(*slots_[i]).slot = static_cast<int>(i);
    participants_.push_back(*slots_[i]);
    if (has_spares() && before[i] && before[i] != slots_[i]) successions.push_back({*before[i], *slots_[i]});
  }
  return successions;
}

bool Membership::is_changed() const {
  std::size_t staying = 0;
  for (const AgentIndex agent : participants_) staying += stays(agent) ? 1 : 0;
  if (staying < participants_.size()) return true;
  if (rules_.domain_size > 0) {
    Membership next = *this;
    next.choose();
    return next.participants_ != participants_;
  }
  return staying < slots_.size() && staying < here_.size();
}

std::vector<plan::Announcement> Membership::announcements() const {
  std::vector<plan::Announcement> all;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i]) continue;
    all.push_back(*at(*slots_[i]).announcement);
    if (has_spares() || ordered_) all.back().node = NodeIndex{static_cast<int>(i)};
  }
  return all;
}

// Keeps a slot: choose() leaves it to the agent that has it and takes part.
void Membership::keep_slot(AgentIndex agent, int slot) {
  if (slot < 0 || slot >= slots() || slots_[static_cast<std::size_t>(slot)] || at(agent).slot) return;
  slots_[static_cast<std::size_t>(slot)] = agent;
  member(agent).slot = slot;
  member(agent).position = 0;
}

void Membership::keep_aside(AgentIndex agent) { member(agent).set_aside = true; }

void Membership::note_lost(AgentIndex agent, const std::string& host, std::string why) {
  if (is_here(agent) || at(agent).announcement) return;
  member(agent).announcement.emplace().host = host;
  member(agent).lost = std::move(why);
}

std::vector<AgentIndex> Membership::waiting() const {
  std::vector<AgentIndex> all;
  for (int place = 0; place < places(); ++place) {
    if (is_here({place}) && !takes_part({place})) all.push_back({place});
  }
  return all;
}

bool Membership::set_aside(AgentIndex agent) {
  if (!anyone_waits()) return false;
  member(agent).set_aside = true;
  return true;
}

void Membership::note_first_failure(AgentIndex agent, bool hardware) {
  first_failures_ = failed_first_ == agent ? first_failures_ + 1 : 1;
  failed_first_ = agent;
  int& by_hardware = member(agent).hardware_failures;
  if (hardware) ++by_hardware;
  const bool due = rules_.replace_after > 0 && std::max(first_failures_, by_hardware) >= rules_.replace_after;
  if (!due || agent == own_ || !set_aside(agent)) return;
  failed_first_.reset();
  by_hardware = 0;
}

}  // namespace ddprun::rendezvous
