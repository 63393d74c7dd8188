#include "checkpoint/neighbours.hpp"

#include <algorithm>

namespace ddprun::checkpoint {

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

}  // namespace ddprun::checkpoint
