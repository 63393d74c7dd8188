// --profile: the coordinator asks all agents, and passes what they answer on to the one that asks.
#include "catch.hpp"
#include "coordinator_play.hpp"
#include "profile/rank_profile.hpp"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test::coordinator;

TEST_CASE("a request for a profile goes to every agent, and each part of the answer to the one that asks") {
  Play play(settings(3));
  play.run();
  play.say(1, ProfileRequest{4, 0, 10s, 4096});
  const auto requests = play.sent<ProfileRequest>();
  REQUIRE(requests.size() == 3);
  for (const auto& [agent, request] : requests) {
    CHECK(request.number == 4);
    CHECK(request.duration == 10s);
    CHECK(request.limit == 4096);
    CHECK(request.asker == requests.front().second.asker);
  }
  REQUIRE(play.sent<ProfilePart>().size() == 1);
  CHECK(play.sent<ProfilePart>()[0].first == 1);
  CHECK(play.sent<ProfilePart>()[0].second.agents == 3);
  CHECK(profile::parse_job(play.sent<ProfilePart>()[0].second.line).silent.size() == 3);

  play.say(2, ProfilePart{4, requests.front().second.asker, 9, true, "line"});
  const auto parts = play.sent<ProfilePart>();
  REQUIRE(parts.size() == 2);
  CHECK(parts[1].first == 1);
  CHECK(parts[1].second == ProfilePart{4, requests.front().second.asker, 0, true, "line"});
}

TEST_CASE("a part for an agent that is not there is dropped") {
  Play play(settings(2));
  play.run();
  play.say(1, ProfilePart{1, 4711, 0, true, "line"});
  CHECK(play.sent<ProfilePart>().empty());
}
