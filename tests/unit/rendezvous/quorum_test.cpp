// Which side of the agents goes on.
#include "rendezvous/membership/quorum.hpp"

#include <algorithm>
#include <bit>

#include "catch.hpp"
#include "rendezvous/host_limits.hpp"
#include "rendezvous/membership/member_session.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace std::chrono_literals;

namespace {

std::vector<AgentIndex> places(const std::vector<int>& numbers) {
  std::vector<AgentIndex> all;
  for (const int number : numbers) all.push_back({number});
  return all;
}

Roll roll(int number, const std::vector<int>& agents) { return {number, to_ranges(places(agents))}; }

Survivor survivor(int own, std::vector<Roll> rolls, std::vector<int> ended = {}, bool counts = true) {
  Roster roster;
  roster.rolls = std::move(rolls);
  roster.own = {own};
  roster.counts = counts;
  return {roster, std::move(ended)};
}

Quorum gathered(const std::vector<Survivor>& survivors) {
  Quorum quorum;
  for (const Survivor& each : survivors) quorum.note_survivor(each);
  return quorum;
}

const TimePoint k_now{};

Roster roster_of(int own) {
  Roster roster;
  roster.rolls = {roll(1, {0, 1, 2, 3})};
  roster.coordinator = {0};
  roster.host = "n1";
  for (const int place : {1, 2, 3})
    roster.successors.push_back(
        {{place}, "n" + std::to_string(place + 1), {"10.0.0." + std::to_string(place + 1)}, 20000});
  roster.own = {own};
  return roster;
}

std::vector<int> places_of(const std::vector<Successor>& successors) {
  std::vector<int> all;
  for (const Successor& each : successors) all.push_back(each.place.value);
  return all;
}

}  // namespace

TEST_CASE("places as ranges, and back") {
  CHECK(to_ranges(places({0, 1, 2, 5, 7, 8})) == std::vector<PlaceRange>{{0, 2}, {5, 5}, {7, 8}});
  CHECK(from_ranges({{0, 2}, {5, 5}, {7, 8}}) == places({0, 1, 2, 5, 7, 8}));
  CHECK(to_ranges({}).empty());
}

TEST_CASE("of any two sides of a split at most one goes on, and with a whole world one does") {
  const int agents = GENERATE(2, 3, 4, 5, 6, 7);
  for (unsigned side = 1; side < (1U << static_cast<unsigned>(agents)); ++side) {
    std::vector<int> all;
    for (int i = 0; i < agents; ++i) all.push_back(i);
    const auto goes_on = [&](unsigned members) {
      std::vector<Survivor> here;
      for (const int i : all) {
        if ((members >> static_cast<unsigned>(i)) & 1U) here.push_back(survivor(i, {roll(1, all)}));
      }
      return !here.empty() && gathered(here).is_majority();
    };
    const unsigned others = ((1U << static_cast<unsigned>(agents)) - 1) & ~side;
    INFO(agents << " agents, side " << side);
    CHECK(goes_on(side) != goes_on(others));
  }
}

TEST_CASE("the old coordinator and the next one judge a split alike") {
  Quorum old;
  old.begin(places({0, 1, 2, 3}));
  old.note_left({2}, false);
  CHECK(old.is_majority());
  old.note_left({3}, false);
  CHECK(old.is_majority());  // a half, with the lowest
  old.note_left({1}, false);
  CHECK_FALSE(old.is_majority());
  CHECK(old.count().here == 1);
  CHECK(old.count().all == 4);
  CHECK_FALSE(
      gathered({survivor(2, {roll(1, {0, 1, 2, 3})}), survivor(3, {roll(1, {0, 1, 2, 3})})}).is_majority());
}

TEST_CASE("who has ended counts on no side") {
  Quorum quorum;
  quorum.begin(places({0, 1, 2, 3, 4}));
  for (const int agent : {1, 2, 3, 4}) quorum.note_left({agent}, true);
  CHECK(quorum.is_majority());
  CHECK(quorum.is_complete());
  const Quorum next = gathered({survivor(1, {roll(1, {0, 1, 2})}, {0}), survivor(2, {roll(1, {0, 1, 2})})});
  CHECK(next.is_complete());
  CHECK(gathered({survivor(1, {roll(1, {0, 1})}, {0})}).is_majority());
  CHECK_FALSE(gathered({survivor(1, {roll(1, {0, 1})})}).is_majority());
}

TEST_CASE("a roll counts until a majority of it knows the next one") {
  Quorum quorum;
  quorum.begin(places({0, 1, 2, 3, 4}));
  quorum.note_left({3}, false);
  quorum.note_left({4}, false);
  quorum.begin(places({0, 1, 2}));
  CHECK(quorum.number() == 2);
  CHECK(quorum.rolls().size() == 2);
  CHECK_FALSE(quorum.note_told({0}, 2));
  CHECK_FALSE(quorum.note_told({1}, 2));
  CHECK(quorum.note_told({2}, 2));  // 3 of 5
  CHECK(quorum.rolls() == std::vector<Roll>{roll(2, {0, 1, 2})});
  // One of those that went cannot go on with the roll it knows.
  CHECK_FALSE(gathered({survivor(3, {roll(1, {0, 1, 2, 3, 4})}), survivor(4, {roll(1, {0, 1, 2, 3, 4})})})
                  .is_majority());
}

TEST_CASE("an agent that knows less than the others counts as they know it") {
  const std::vector<Roll> both{roll(1, {0, 1, 2, 3}), roll(2, {0, 1, 2})};
  Quorum quorum = gathered({survivor(1, {roll(1, {0, 1, 2, 3})})});
  CHECK_FALSE(quorum.is_majority());
  quorum.note_survivor(survivor(2, both));
  CHECK_FALSE(quorum.is_majority());  // half of the first, without its lowest
  quorum.note_survivor(survivor(3, {roll(1, {0, 1, 2, 3})}));
  CHECK(quorum.is_majority());
}

TEST_CASE("a roll is settled where a majority of it knows a later one, the lost coordinator included") {
  // 2 came later; the coordinator 0 has begun the roll with it, and 1 knows of that.
  const std::vector<Roll> both{roll(1, {0, 1}), roll(2, {0, 1, 2})};
  Survivor one = survivor(1, both), late = survivor(2, both);
  one.roster.coordinator = late.roster.coordinator = {0};
  CHECK(gathered({one, late}).is_majority());
  CHECK_FALSE(gathered({one}).is_majority());
  CHECK_FALSE(gathered({late}).is_majority());
  // Another one of the first roll might not know of it, and go on with 0.
  const std::vector<Roll> more{roll(1, {0, 1, 3, 4}), roll(2, {0, 1, 2})};
  one = survivor(1, more);
  late = survivor(2, more);
  one.roster.coordinator = late.roster.coordinator = {0};
  CHECK_FALSE(gathered({one, late}).is_majority());
}

TEST_CASE("who came after a roll was begun does not count in it") {
  const std::vector<Roll> rolls{roll(3, {0, 1, 2})};
  CHECK_FALSE(gathered({survivor(1, rolls), survivor(2, rolls, {}, false)}).is_majority());
  CHECK(gathered({survivor(1, rolls), survivor(2, rolls)}).is_majority());
}

TEST_CASE("nothing is missing but the coordinator") {
  const std::vector<Roll> rolls{roll(1, {0, 1, 2})};
  const Quorum quorum = gathered({survivor(1, rolls), survivor(2, rolls)});
  CHECK_FALSE(quorum.is_complete());
  CHECK(quorum.is_complete_without({0}));
  CHECK_FALSE(gathered({survivor(1, rolls)}).is_complete_without({0}));
}

TEST_CASE("the first agent that is left takes over after a look for another one") {
  const auto end = GENERATE(ConnectionEnd::ended, ConnectionEnd::broken, ConnectionEnd::silent);
  const bool ended = end == ConnectionEnd::ended;
  for (const int own : {1, 2, 3}) {
    NextCoordinator next(10s);
    CHECK_FALSE(next.is_told());
    CHECK(next.note(roster_of(own)));
    CHECK_FALSE(next.note(roster_of(own)));
    CHECK_FALSE(next.note_lost("lost n1", end, true, k_now));
    CHECK(next.survivor().ended == (ended ? std::vector<int>{0} : std::vector<int>{}));
    const TimePoint turn = k_now + (ended ? 0s : k_finding) + (own - 1) * successor_turn(10s);
    CHECK(next.is_searching());
    const NextCoordinator::Search search = next.next(k_now + 1ms);
    CHECK(search.takes_over_at == std::max(turn, k_now + 1ms + k_look));
    CHECK(1ms + search.timeout == longest_search(10s));
    CHECK(search.successors.size() == 2);
    CHECK(next.next(turn + 1s).takes_over_at == turn + 1s + k_look);
  }
}

TEST_CASE("one that has taken over and is lost in its turn is passed over") {
  NextCoordinator next(10s);
  next.note(roster_of(3));
  CHECK_FALSE(next.note_lost("lost n1", ConnectionEnd::silent, true, k_now));
  CHECK(places_of(next.next(k_now).successors) == std::vector<int>{1, 2});
  next.note_joined("10.0.0.2", 20000);
  CHECK_FALSE(next.is_searching());
  CHECK_FALSE(next.note_lost("lost n2", ConnectionEnd::ended, true, k_now + 1s));
  const auto search = next.next(k_now + 1s);
  CHECK(places_of(search.successors) == std::vector<int>{2});
  CHECK(search.takes_over_at == k_now + 1s + successor_turn(10s));
  CHECK(search.timeout == longest_search(10s) - 1s);
  CHECK(next.survivor().ended == std::vector<int>{1});
}

TEST_CASE("once a coordinator has sent its roster the search for the next one begins anew") {
  NextCoordinator next(10s);
  next.note(roster_of(3));
  next.note_lost("lost n1", ConnectionEnd::ended, true, k_now);
  next.note_joined("10.0.0.2", 20000);
  Roster roster = roster_of(3);
  roster.coordinator = {1};
  roster.successors.front() = {{0}, "n1", {"10.0.0.1"}, 20000};  // it has come again
  CHECK(next.note(roster));
  const TimePoint later = k_now + longest_search(10s);
  CHECK_FALSE(next.note_lost("lost n2", ConnectionEnd::silent, true, later));
  const auto search = next.next(later);
  CHECK(places_of(search.successors) == std::vector<int>{0, 2});
  CHECK(search.timeout == longest_search(10s));
  CHECK(next.survivor().ended.empty());
  CoordinatorSettings settings;
  next.inherit(settings);
  CHECK(settings.takeover->why == "lost n2");
}

TEST_CASE("where nobody is left to look for the agent ends with what it lost last") {
  NextCoordinator next(10s);
  Roster roster = roster_of(9);
  roster.successors.resize(1);
  next.note(roster);
  CHECK_FALSE(next.note_lost("lost n1", ConnectionEnd::ended, true, k_now));
  next.note_joined("10.0.0.2", 20000);
  CHECK(next.note_lost("lost n2", ConnectionEnd::ended, true, k_now) == "lost n2");
}

TEST_CASE("the only agent that is left looks for nobody and takes over at once") {
  NextCoordinator next(10s);
  Roster roster = roster_of(1);
  roster.successors.resize(1);
  next.note(roster);
  CHECK_FALSE(next.note_lost("lost n1", ConnectionEnd::ended, true, k_now));
  CHECK(next.next(k_now + 1ms).takes_over_at == k_now);
}

TEST_CASE("an agent that cannot listen does not take over, and ends where it is the only one left") {
  NextCoordinator next(10s);
  Roster roster = roster_of(1);
  next.note(roster);
  CHECK_FALSE(next.note_lost("lost n1", ConnectionEnd::ended, false, k_now));
  const auto search = next.next(k_now + longest_search(10s) - 1s);
  CHECK_FALSE(search.takes_over_at);
  roster.successors.resize(1);
  next.note(roster);
  CHECK(next.note_lost("lost n1", ConnectionEnd::ended, false, k_now) == "lost n1");
}

TEST_CASE("an agent that was told of nobody, or whose coordinator hangs, looks for no other") {
  NextCoordinator next(10s);
  CHECK(next.note_lost("lost n1", ConnectionEnd::ended, true, k_now) == "lost n1");
  next.note(roster_of(1));
  CHECK(next.note_lost("n1 hangs", ConnectionEnd::hanging, true, k_now) == "n1 hangs");
}

TEST_CASE("a search in vain ends with the first loss and those that did not take over") {
  NextCoordinator next(10s);
  next.note(roster_of(1));
  CHECK_FALSE(next.note_lost("lost n1", ConnectionEnd::silent, false, k_now));
  const auto why =
      next.note_lost("nobody answered", ConnectionEnd::broken, false, k_now + longest_search(10s));
  CHECK(why == "lost n1; n3, n4 did not take over");
}

TEST_CASE("who takes over goes on as the agent and the launch that the lost coordinator knew") {
  NextCoordinator next(10s);
  Roster roster = roster_of(2);
  roster.launch_id = "launch";
  next.note(roster);
  next.note_lost("lost n1", ConnectionEnd::ended, true, k_now);
  next.note_lost("nobody answered", ConnectionEnd::broken, true, k_now + 1s);
  CoordinatorSettings settings;
  settings.when_alone = allocation::Notice{};
  next.inherit(settings);
  CHECK(settings.own == AgentIndex{2});
  CHECK(settings.launch_id == "launch");
  CHECK_FALSE(settings.when_alone);
  REQUIRE(settings.takeover);
  CHECK(settings.takeover->why == "lost n1");
  CHECK(settings.takeover->host_timeout == 10s);
}
