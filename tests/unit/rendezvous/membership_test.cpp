#include "rendezvous/membership/membership.hpp"

#include "catch.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

plan::Announcement announcement_of(int agent) {
  plan::Announcement announcement;
  announcement.agent = {agent};
  announcement.host = "n" + std::to_string(agent + 1);
  announcement.node = NodeIndex{agent};
  return announcement;
}

void enter(Membership& members, std::initializer_list<int> agents) {
  for (const int agent : agents) members.enter({agent}, ConnectionId{100 + agent}, announcement_of(agent));
}

std::vector<int> numbers(const std::vector<AgentIndex>& agents) {
  std::vector<int> found;
  for (const AgentIndex agent : agents) found.push_back(agent.value);
  return found;
}

using Numbers = std::vector<int>;
using Successions = std::vector<Succession>;

}  // namespace

TEST_CASE("without spares all that are here take part, in the order of their places") {
  Membership members(4);
  enter(members, {3, 0, 2});
  CHECK(members.is_changed());
  CHECK(members.choose().empty());
  CHECK(numbers(members.participants()) == Numbers{0, 2, 3});
  CHECK(members.waiting().empty());
  CHECK_FALSE(members.is_changed());
  CHECK(members.missing() == Numbers{1});
  enter(members, {1});
  CHECK(members.is_changed());
  CHECK(numbers(members.waiting()) == Numbers{1});
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 1, 2, 3});
  CHECK(members.at({1}).position == 1);
}

TEST_CASE("the last places are spare where all have come") {
  Membership members(5, 2);
  enter(members, {4, 3, 2, 1, 0});
  CHECK(members.choose().empty());
  CHECK(numbers(members.participants()) == Numbers{0, 1, 2});
  CHECK(numbers(members.waiting()) == Numbers{3, 4});
  CHECK_FALSE(members.is_changed());
  CHECK(members.slots() == 3);
}

TEST_CASE("a spare takes part from the beginning where another has not come") {
  Membership members(4, 1);
  enter(members, {0, 2, 3});
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 3, 2});
  CHECK(members.announcements()[1].host == "n4");
  CHECK(members.announcements()[1].node == NodeIndex{1});
}

TEST_CASE("a spare has the ranks of the lost one, and the others keep theirs") {
  Membership members(5, 2);
  enter(members, {0, 1, 2, 3, 4});
  members.choose();
  members.leave({1}, "it is gone");
  CHECK(members.is_changed());
  CHECK(members.choose() == Successions{{{1}, {3}}});
  CHECK(numbers(members.participants()) == Numbers{0, 3, 2});
  CHECK(members.at({3}).position == 1);
  CHECK(members.at({1}).lost == "it is gone");
  CHECK(members.lost_hosts() == std::vector<std::string>{"n2"});
  CHECK(numbers(members.waiting()) == Numbers{4});

  SECTION("whoever comes back is a spare") {
    members.enter({1}, ConnectionId{201}, announcement_of(1));
    CHECK(members.at({1}).lost.empty());
    CHECK_FALSE(members.is_changed());
    CHECK(members.choose().empty());
    CHECK(numbers(members.waiting()) == Numbers{1, 4});
    CHECK(members.lost_hosts().empty());
  }
  SECTION("two losses at once") {
    members.leave({3}, "gone");
    members.leave({2}, "gone");
    CHECK(members.choose() == Successions{{{3}, {4}}});
    CHECK(numbers(members.participants()) == Numbers{0, 4});
    CHECK(members.at({4}).position == 1);
    CHECK(members.announcements()[1].node == NodeIndex{1});
  }
  SECTION("a lost spare changes nothing") {
    members.leave({4}, "gone");
    CHECK_FALSE(members.is_changed());
  }
}

TEST_CASE("who comes back to an empty slot has its ranks again") {
  Membership members(4, 1);
  enter(members, {0, 1, 2, 3});
  members.choose();
  members.leave({1}, "gone");
  members.leave({2}, "gone");
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 3});
  members.enter({2}, ConnectionId{202}, announcement_of(2));
  CHECK(members.is_changed());
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 3, 2});
}

TEST_CASE("who is set aside takes part only where nobody else can") {
  Membership members(4, 1);
  enter(members, {0, 1, 2, 3});
  members.choose();
  CHECK(members.set_aside({1}));
  CHECK(members.is_changed());
  CHECK(members.choose() == Successions{{{1}, {3}}});
  CHECK(numbers(members.waiting()) == Numbers{1});
  CHECK_FALSE(members.is_changed());
  CHECK_FALSE(members.set_aside({2}));  // nobody else is left
  CHECK_FALSE(members.is_changed());
  members.leave({3}, "gone");
  CHECK(members.is_changed());
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 1, 2});
  CHECK_FALSE(members.is_changed());
}

TEST_CASE("who was set aside and is needed after all has its own ranks") {
  Membership members(3, 1);
  enter(members, {0, 1, 2});
  members.choose();
  CHECK(members.set_aside({1}));
  members.leave({0}, "gone");
  CHECK(members.choose() == Successions{{{0}, {2}}});
  CHECK(numbers(members.participants()) == Numbers{2, 1});
}

TEST_CASE("who has gone and come back has no workers, so that the attempt is not the same") {
  Membership members(3);
  enter(members, {0, 1, 2});
  members.choose();
  members.leave({1}, "gone");
  members.enter({1}, ConnectionId{201}, announcement_of(1));
  CHECK_FALSE(members.takes_part({1}));
  CHECK(members.is_changed());
}

TEST_CASE("two that are set aside share one spare") {
  Membership members(5, 1);
  enter(members, {0, 1, 2, 3, 4});
  members.choose();
  CHECK(members.set_aside({1}));
  CHECK(members.set_aside({2}));
  CHECK(members.choose() == Successions{{{1}, {4}}});
  CHECK(numbers(members.participants()) == Numbers{0, 4, 2, 3});
}

TEST_CASE("with one agent a task nodes are hosts") {
  Membership members(4);
  for (int agent = 0; agent < 4; ++agent) {
    plan::Announcement announcement = announcement_of(agent / 2);
    announcement.agent = {agent};
    announcement.fixed_rank = GlobalRank{agent};
    members.enter({agent}, ConnectionId{agent}, announcement);
  }
  CHECK(members.nodes_here() == 2);
  members.leave({3}, "gone");
  CHECK(members.nodes_here() == 2);
  members.leave({2}, "gone");
  CHECK(members.nodes_here() == 1);
}

TEST_CASE("an agent with a number moves one that was numbered as it came") {
  Membership members(3);
  plan::Announcement unnumbered;
  unnumbered.host = "a";
  CHECK(members.find_place(unnumbered)->place == AgentIndex{0});
  members.enter({0}, ConnectionId{1}, unnumbered);
  CHECK(members.at({0}).announcement->node == NodeIndex{0});
  const auto place = members.find_place(announcement_of(0));
  REQUIRE(place);
  CHECK(place->place == AgentIndex{0});
  REQUIRE(place->moved_to == AgentIndex{1});
  members.move({0}, {1});
  members.enter({0}, ConnectionId{2}, announcement_of(0));
  CHECK(members.here().at(ConnectionId{1}) == AgentIndex{1});
  CHECK(members.at({1}).announcement->agent == AgentIndex{1});
  CHECK(members.at({1}).announcement->node == NodeIndex{1});
  CHECK_FALSE(members.find_place(announcement_of(0)));
}

TEST_CASE("who comes late has the place that it had on this host") {
  Membership members(3);
  plan::Announcement unnumbered;
  for (const int number : {0, 1, 2}) {
    unnumbered.host = "host" + std::to_string(number);
    members.enter({number}, ConnectionId{number}, unnumbered);
  }
  members.leave({1}, "gone");
  members.leave({2}, "gone");
  unnumbered.host = "host2";
  CHECK(members.find_late_place(unnumbered) == AgentIndex{2});
  unnumbered.host = "new";
  CHECK(members.find_late_place(unnumbered) == AgentIndex{1});
  CHECK_FALSE(members.find_late_place(announcement_of(0)));
}

namespace {

// Agents 0, 2, 4 and 6 on one leaf switch, the others on another one.
void enter_on_two_switches(Membership& members, std::initializer_list<int> agents) {
  for (const int agent : agents) {
    plan::Announcement announcement = announcement_of(agent);
    announcement.network.switches = agent % 2 == 0 ? "s0/leaf1" : "s0/leaf2";
    members.enter({agent}, ConnectionId{200 + agent}, std::move(announcement));
  }
}

}  // namespace

TEST_CASE("by the network the slots are in its order, also after a loss and a return") {
  Membership members(4, 0, {0}, {.by_network = true});
  enter_on_two_switches(members, {3, 2, 1, 0});
  members.choose();
  CHECK(members.is_ordered());
  CHECK(numbers(members.participants()) == Numbers{0, 2, 1, 3});
  CHECK(members.announcements()[1].node == NodeIndex{1});
  members.leave({2}, "it is gone");
  CHECK(members.choose().empty());
  CHECK(numbers(members.participants()) == Numbers{0, 1, 3});
  enter_on_two_switches(members, {2});
  CHECK(members.is_changed());
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 2, 1, 3});
  CHECK_FALSE(members.is_changed());
}

TEST_CASE("by the network the nearest spare has a lost one's slot") {
  Membership members(6, 2, {0}, {.by_network = true, .domain_size = 2, .least = 4});
  enter_on_two_switches(members, {0, 1, 2, 3, 4, 5});
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 2, 1, 3});
  members.leave({3}, "it is gone");
  CHECK(members.choose() == Successions{{{3}, {5}}});
  members.leave({0}, "it is gone");
  CHECK(members.choose() == Successions{{{0}, {4}}});
  members.leave({4}, "it is gone");
  CHECK(members.choose().empty());  // none is left, and whole or not the others go on
  CHECK(numbers(members.participants()) == Numbers{2, 1, 5});
}

TEST_CASE("a switch without enough agents waits for more") {
  Membership members(6, 0, {0}, {.by_network = true, .domain_size = 2, .least = 2});
  enter_on_two_switches(members, {0, 1, 2, 3, 4});
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 2, 1, 3});
  CHECK(numbers(members.waiting()) == Numbers{4});
  CHECK_FALSE(members.is_changed());
  members.leave({1}, "it is gone");
  CHECK(members.is_changed());
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 2});
  CHECK(numbers(members.waiting()) == Numbers{3, 4});
  enter_on_two_switches(members, {5});
  CHECK(members.is_changed());
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 2, 3, 5});
  for (const int agent : {2, 3, 4}) members.leave({agent}, "it is gone");
  members.choose();
  CHECK(numbers(members.participants()) == Numbers{0, 5});  // as many as the job needs
}

TEST_CASE("one that comes back before the next attempt is another one, also where units are kept whole") {
  Membership members(4, 0, {0}, {.by_network = true, .domain_size = 2, .least = 2});
  enter_on_two_switches(members, {0, 1, 2, 3});
  members.choose();
  members.leave({3}, "it is gone");
  enter_on_two_switches(members, {3});
  CHECK(members.is_changed());
}

TEST_CASE("agents of single tasks keep the order of their launcher") {
  Membership members(2, 0, {0}, {.by_network = true});
  for (const int agent : {0, 1}) {
    plan::Announcement announcement = announcement_of(agent);
    announcement.fixed_rank = GlobalRank{agent};
    announcement.network.position = 1 - agent;
    members.enter({agent}, ConnectionId{agent}, std::move(announcement));
  }
  members.choose();
  CHECK_FALSE(members.is_ordered());
  CHECK(numbers(members.participants()) == Numbers{0, 1});
}
